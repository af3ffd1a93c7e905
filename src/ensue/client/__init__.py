"""A client of the service that speaks in the library's records, and its twin for programs that wait for many things.

    >>> from ensue import History
    >>> from ensue.client import Client
    >>> Client("http://127.0.0.1:8000").predict("clicks", [History(("a17", "b03"))], k=3)

What may be asked twice without harm is asked again where nobody took the connection or the service was busy; updates
only under a key, events never. Needs the extra ``client``.
"""

from ensue.client.blocking import Client
from ensue.client.waiting import AsyncClient

__all__ = ["AsyncClient", "Client"]
