"""Programs that go on for ever: their duties, their log, their pages, and how they begin and end."""
