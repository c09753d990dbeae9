"""The viewer: turns rows of a trial into views, and prints views."""
