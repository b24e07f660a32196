"""What is published of a version, each file the same whoever builds it from the same commit."""
