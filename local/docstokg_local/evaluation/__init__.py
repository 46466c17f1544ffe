"""What retrieval and answers are worth, against gold."""
