"""The viewer: rows of a trial in, views out, and views onto the terminal."""
