"""Headers in front of the data, and the properties that travel in them."""
