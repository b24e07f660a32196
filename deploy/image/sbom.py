"""The image's parts as a CycloneDX 1.6 document: each Debian package and each wheel, with version and licence."""

import json
import uuid
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from deploy.image import wheels
from deploy.image.debian import DebianPackage

#: In the image.
PATH: Final = Path("usr/share/doc/muster/sbom.cdx.json")


def write(root: Path, packages: list[DebianPackage]) -> None:
    """Write the document into the root file system. The same parts make the same document."""
    metadata = [
        HeaderParser().parsestr(file.read_text())
        for file in sorted((root / wheels.PACKAGES).glob("*.dist-info/METADATA"))
    ]
    (own,) = (each for each in metadata if each["Name"] == "muster")
    components = [_wheel(each) for each in metadata if each is not own]
    components += [_debian(package) for package in packages]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_wheel(own), "type": "application"}},
        "components": components,
    }
    # A number that follows from the content: two builds of one commit are the same.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    path = root / PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"serialNumber": f"urn:uuid:{number}", **body}, indent=1) + "\n")


def _wheel(metadata: Message) -> dict[str, Any]:
    name, version = metadata["Name"], metadata["Version"]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    if expression := metadata["License-Expression"]:
        component["licenses"] = [{"expression": expression}]
    elif licence := _licence(metadata):
        component["licenses"] = [{"license": {"name": licence}}]
    return component


def _licence(metadata: Message) -> str | None:
    """What older packages say: a short text, or one of the index's classifiers."""
    said = metadata["License"] or ""
    if said and "\n" not in said and len(said) <= 80:
        return said
    classifiers = metadata.get_all("Classifier") or []
    names = [text.rsplit(" :: ", 1)[-1] for text in classifiers if text.startswith("License :: ")]
    return names[0] if names else None


def _debian(package: DebianPackage) -> dict[str, Any]:
    version = quote(package.version, safe="+.-~")
    purl = f"pkg:deb/debian/{package.name}@{version}?arch={package.architecture}&distro=debian-12"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }
