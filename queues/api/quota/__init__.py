"""What a Queue states of quota, loans and limits of access: read from its document, and changed by merge patches."""
