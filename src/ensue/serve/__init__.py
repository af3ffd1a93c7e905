"""The service: any model folder over HTTP, with its page. Needs the extra ``serve``."""
