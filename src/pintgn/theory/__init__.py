"""What can be told apart, and why: slow, obviously right code that the fast rooms are tested against."""
