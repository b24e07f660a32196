"""What metrics show of queues and of the cluster, worked out when they are asked for and not in the turn. Pure."""
