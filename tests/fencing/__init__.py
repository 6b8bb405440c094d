"""What recipients are promised, against real databases and servers."""
