"""Jobs on this host: what is asked for, where it goes, who holds it, and how it is started."""
