"""Objects of Kubernetes as documents: what Muster installs carries one label. Pure."""

from typing import Any, Final

Document = dict[str, Any]

#: On everything that ``muster install`` applies, so that ``muster uninstall`` finds it again.
PART_OF: Final = {"app.kubernetes.io/part-of": "muster"}
