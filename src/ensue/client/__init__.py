"""Clients of the service, blocking and asynchronous: sessions are lists of ids, answers are those of the library.

    >>> from ensue.client import Client
    >>> Client("http://127.0.0.1:8000").predict("clicks", [["a17", "b03"]], k=3)

A request is sent again where the connection failed or the service was busy; an update only under a key, events never.
Needs the extra ``client``.
"""

from ensue.client.blocking import Client
from ensue.client.waiting import AsyncClient

__all__ = ["AsyncClient", "Client"]
