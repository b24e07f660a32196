"""How the API server knows the read API: as an API group of its own, whose requests it passes on to Muster.

It passes them on with the name of the user, and proves by its client certificate that it is the API server, whatever
the user authenticated with. See docs/decisions/read-api.md.
"""

import base64
from typing import Final
from urllib.parse import urlsplit

from admission.kube.webhook.configuration import READ_SERVICE
from queues.api.api_resources import API_SERVICES, SERVICES, Document, api_service_name
from queues.api.names import READ_API

#: Of the Service.
PORT: Final = 443
#: Order among all API groups; only clients that look for a kind of object by its short name care.
_LATE: Final = 100


def read_api(namespace: str, bundle: bytes, url: str | None = None) -> list[Document]:
    """The APIService; with ``url``, also a Service of that name for a Muster outside the cluster.

    ``bundle``: PEM that the API server shall believe; empty: Muster fills it in.
    """
    address = urlsplit(url or "")
    trust = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
    group, _, version = READ_API.partition("/")
    announced = API_SERVICES.document(
        api_service_name(READ_API),
        spec={
            "group": group,
            "version": version,
            "groupPriorityMinimum": _LATE,
            "versionPriority": _LATE,
            "service": {"namespace": namespace, "name": READ_SERVICE, "port": address.port or PORT},
            **trust,
        },
    )
    if url is None:
        return [announced]
    outside = SERVICES.document(
        READ_SERVICE, namespace, spec={"type": "ExternalName", "externalName": address.hostname}
    )
    return [outside, announced]
