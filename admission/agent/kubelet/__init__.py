"""What the kubelet of the node says of its devices, by the names that device plugins have for them."""
