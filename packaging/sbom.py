#!/usr/bin/env python3
"""Prints the program's software bill of materials as CycloneDX JSON: all crates that it is made of, with licences,
checksums, and which uses which. Crates that only run while it is built have the scope `excluded`.

Checked against the schema of CycloneDX, and the same for the same source."""

import sys
from datetime import datetime, timezone
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from crates import Crate, build_time, crates


def component(crate: Crate, kind: ComponentType) -> Component:
    purl = PackageURL("cargo", None, crate.name, crate.version)
    references = []
    if crate.repository:
        references.append(ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(crate.repository)))
    return Component(
        type=kind,
        bom_ref=str(purl),
        name=crate.name,
        version=crate.version,
        description=crate.description or None,
        purl=purl,
        scope=None if kind == ComponentType.APPLICATION
        else ComponentScope.EXCLUDED if crate.build_only else ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_with_expression(crate.license)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=crate.checksum)] if crate.checksum else [],
        external_references=references,
    )


def main() -> None:
    program, used = crates()
    bom = Bom(metadata=None, serial_number=uuid5(NAMESPACE_URL, f"{program.name}@{program.version}/{build_time()}"))
    bom.metadata.timestamp = datetime.fromtimestamp(build_time(), timezone.utc)
    bom.metadata.component = component(program, ComponentType.APPLICATION)
    components = {program.id: bom.metadata.component}
    for crate in used:
        components[crate.id] = component(crate, ComponentType.LIBRARY)
        bom.components.add(components[crate.id])
    for crate in [program, *used]:
        bom.register_dependency(components[crate.id], [components[id] for id in crate.uses])

    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"error: this is no valid CycloneDX: {error}")
    print(text)
    linked = sum(not crate.build_only for crate in used)
    print(f"{len(used)} components: {linked} in the program, {len(used) - linked} for its build", file=sys.stderr)


main()
