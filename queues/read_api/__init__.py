"""What the read API answers: one form of each answer, which the server fills, and the plugin and the page read."""
