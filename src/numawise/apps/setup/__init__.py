"""``setup``: prepare a box that several people share, and take that back."""
