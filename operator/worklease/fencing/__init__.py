"""What a system that receives effects uses to refuse standing that has expired; imports nothing of the rest."""
