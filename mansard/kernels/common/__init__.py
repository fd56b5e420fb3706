"""Code that several families share."""
