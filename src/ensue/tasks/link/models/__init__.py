"""The paper's network, the encoders of texts that it compares, and its losses."""
