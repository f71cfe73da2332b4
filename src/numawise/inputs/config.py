"""A kubelet's configuration: every form that any command takes, read by one function.

Rules kept here:

1. A file is a KubeletConfiguration, a fragment of one, what ``/configz`` answers, a bundle, or an object of
   another tool that carries a configuration (``codec.kubelet.forms``).  Drop-ins and flags are laid over it.
2. Flags are a command line, a file of variables or a systemd unit: the text itself, or a file that has it.
3. A file that cannot be opened is an error at once.  Anything else that is wrong is a finding: ``check``
   reports them all; for every other command the first that the kubelet would refuse is an ``InputError``.  So
   is a field that the release does not know, which the kubelet would pass over: most likely it is misspelt.
4. Only ``kind`` and ``apiVersion`` may be left out where the kubelet would miss them.
5. A machine out of a NodeResourceTopology has no CPU ids: reserved CPUs are moved to where the object keeps
   some from pods.  Where no configuration is given, what the object shows is one, with what was assumed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import Document, Part, read_documents
from numawise.codec.edits import correction, remove_repeated
from numawise.codec.infile import is_file, is_folder, is_there, members, opened, read_raw
from numawise.codec.kubelet.config import KIND, decode_kubelet_config
from numawise.codec.kubelet.effective import Configuration, configured, directory_finding, drop_in_refusal
from numawise.codec.kubelet.flags import Flag, is_flags, read_flags
from numawise.codec.kubelet.forms import (
    Found,
    configurations_in_text,
    joined_apart,
    kubelet_configurations,
)
from numawise.errors import InputError
from numawise.results.finding import Finding, Place, Severity, codes, found
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.codec.hardware.nrt import NodeTopology

FLAGS = "--kubelet-flags"
DROP_IN = ".conf"
MOST_DROP_INS = 1000
SNIFFED = 1 << 20
TWICE = re.compile(r"the key (.*) appears twice")
FIELD = re.compile(r"Go struct field KubeletConfiguration\.([\w.]+)")
STRICT = frozenset({"NW103", "NW104", "NW105"})
"""What the kubelet warns about and ``check`` reports; other commands refuse it (rule 3)."""
KINDLESS = "NW102"
BEGINNING = "InitConfiguration"
KUBEADM = (BEGINNING, "JoinConfiguration")
NOTHING_INSIDE = "has no kubelet configuration in it"
IGNORED = "remove it; the kubelet would ignore it with a warning"
QUOTE = "the value must be text: put it in quotes"
Report = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class ConfigInput:
    """One kubelet's configuration in its parts, not yet read by any release."""

    name: str
    """What to call it in messages: the file, or where the flags stand."""
    base: Found | None = None
    drop_ins: tuple[Document, ...] = ()
    flags: tuple[Flag, ...] = ()
    flags_file: str = ""
    directory: str = ""
    """Of the drop-ins."""
    texts: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """What was wrong with the files as such."""
    tolerant: bool = False
    """A kubelet ran with it, so that what it passed over does not matter."""
    published: "NodeTopology | None" = None
    """The object that the machine was read from (rule 5)."""
    assumed: str = ""
    """What was assumed, where this is what a NodeResourceTopology shows."""

    def configuration(self, version: Version) -> Configuration:
        """All parts together, as one release reads them, with what is wrong."""
        return configured(self.base, self.drop_ins, self.flags, self.flags_file, version, self.texts)

    def config(self, version: Version, *others: Version) -> KubeletConfig:
        """What one release makes of it (rule 3); ``others``: releases that may know a field as well."""
        configuration = self.configuration(version)
        findings = [*self.findings, *directory_finding(self.directory, version), *configuration.findings]
        known = [{one.message for one in self.configuration(other).findings} for other in others]
        for one in findings:
            if one.code == "NW103" and not all(one.message in messages for messages in known):
                continue
            if self._refused(one):
                raise refusal(one)
        value = decode_kubelet_config({**configuration.raw, **self._kind()}, version)
        if isinstance(value, Refusal):
            steps = _field(value.message)
            place = configuration.place(*steps)
            quote = " into Go struct field " in value.message and "of type string" in value.message
            advice = QUOTE if quote else ""
            raise InputError(value.message, file=place.file, line=place.line, advice=advice)
        if self.published is None:
            return value
        from numawise.codec.hardware.nrt_config import fitted_config  # noqa: PLC0415 - few ask for it

        return fitted_config(value, self.published)

    @property
    def remark(self) -> str:
        """What a person should know: it is not all of a configuration."""
        configuration = self.configuration(DEFAULT)
        if not configuration.partial:
            return ""
        platform = configuration.reserved_by
        more = f"; {platform.reserves}, which is not in it" if platform is not None else ""
        part = f"{self.name}: part of a kubelet configuration"
        return f"{part}; the kubelet's defaults are taken for the rest{more}"

    @property
    def fit(self) -> str:
        """What a NodeResourceTopology made of it: what was assumed, or which CPUs are reserved (rule 5)."""
        if self.assumed:
            return f"{self.name}: configuration assumed from this NodeResourceTopology: {self.assumed}"
        if self.published is None:
            return ""
        from numawise.codec.hardware.nrt_config import moved  # noqa: PLC0415 - few ask for it

        return moved(self.name, self.configuration(DEFAULT).raw, self.published)

    def raw(self, version: Version) -> Mapping[str, object]:
        """All fields together, as one release reads them."""
        return {**self._fitted(self.configuration(version).raw), **self._kind()}

    def _fitted(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        if self.published is None:
            return raw
        from numawise.codec.hardware.nrt_config import fitted_fields  # noqa: PLC0415 - few ask for it

        return fitted_fields(raw, self.published)

    def _refused(self, one: Finding) -> bool:
        if one.code == KINDLESS:
            return self.base is not None and bool(self.base.misplaced)
        return one.severity is Severity.ERROR or (one.code in STRICT and not self.tolerant)

    def _kind(self) -> dict[str, object]:
        """What the file says about itself, which the kubelet checks."""
        base = self.base
        if base is None or base.part is None or base.part.steps or base.fragment:
            return {}
        value = base.part.mapping()
        return {name: value[name] for name in value if name.lower() in ("apiversion", "kind")}


def refusal(one: Finding) -> InputError:
    """A finding as an input error."""
    advice = one.fix
    if one.code == "NW103" and one.why != codes()[one.code].why:
        advice = f"{one.why}; {one.fix}"
    return InputError(
        one.message,
        file=one.file,
        line=one.line,
        field=one.field,
        advice=advice or IGNORED,
    )


def read_config(
    named: str | Mapping[str, object] | ConfigInput | None, drop_ins: str = "", flags: str = ""
) -> ConfigInput:
    """One kubelet's configuration; ``named``: a file, its content, or None where flags say all."""
    if isinstance(named, Mapping):
        named = ConfigInput("configuration", Found(Part(Document(named, "configuration"), (), named)))
    if isinstance(named, ConfigInput):
        return _overlaid(named, drop_ins, flags)
    if named is not None and is_bundle(named) and not drop_ins and not flags:
        from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - it reads with this module

        return open_bundle(named).config_input()
    configs, findings = read_configs((named,) if named is not None else (), drop_ins, flags)
    if len(configs) > 1:
        titles = [config.base.title for config in configs if config.base is not None and config.base.title]
        which = f" ({', '.join(titles)})" if titles else ""
        what = f"holds {len(configs)} kubelet configurations{which}; expected one"
        raise InputError(what, file=str(named), advice="save the right one to its own file")
    if configs:
        return configs[0]
    plain = _plain(str(named), findings)
    return ConfigInput(plain.file, Found(plain.root))


def shown_config(topology: "NodeTopology", name: str) -> ConfigInput | None:
    """The configuration that a NodeResourceTopology shows; None when its policy is not known."""
    from numawise.codec.hardware.nrt_config import assumed_config  # noqa: PLC0415 - few ask for it

    assumed = assumed_config(topology)
    if assumed is None:
        return None
    return replace(read_config(assumed.raw), name=name, assumed=assumed.text)


def _overlaid(base: ConfigInput, drop_ins: str, flags: str) -> ConfigInput:
    """A configuration that was read before, with drop-ins and flags over it."""
    if not drop_ins and not flags:
        return base
    over = read_config(None, drop_ins, flags)
    return replace(
        base,
        drop_ins=(*base.drop_ins, *over.drop_ins),
        flags=(*base.flags, *over.flags),
        flags_file=over.flags_file if over.flags else base.flags_file,
        directory=over.directory or base.directory,
        texts={**base.texts, **over.texts},
        findings=(*base.findings, *over.findings),
    )


def _plain(name: str, findings: Sequence[Finding]) -> Document:
    """A mapping without a kind, of which nothing shows that it is a configuration; else what is wrong."""
    document = None
    if name != "-" and [one.message for one in findings] == [NOTHING_INSIDE]:
        document = read_documents(*read_raw(name))[0]
    if document is None or not isinstance(document.value, Mapping) or "kind" in document.value:
        raise refusal(findings[0])
    return document


def read_configs(
    files: Sequence[str], drop_ins: str = "", flags: str = ""
) -> tuple[tuple[ConfigInput, ...], tuple[Finding, ...]]:
    """Every configuration of the files, a kubelet each, and what is wrong where there is none."""
    common: list[Finding] = []
    texts: dict[str, str] = {}
    flag_values, flags_file = _flags(flags, texts, common.append)
    documents = tuple(_drop_ins(drop_ins, texts, common.append))
    configs: list[ConfigInput] = []
    unread: list[Finding] = []
    for path in files:
        own: list[Finding] = []
        forms = list(_configurations(path, texts, own.append))
        name = forms[0][1] if forms else path
        for number, (form, _) in enumerate(forms):
            every = (*form.flags, *flag_values)
            configs.append(
                ConfigInput(
                    name,
                    form,
                    documents,
                    every,
                    flags_file if flag_values else name,
                    drop_ins,
                    texts,
                    tuple((*own, *common) if not number else ()),
                )
            )
        if not forms:
            unread += own
    if not files and (flag_values or documents):
        name = flags_file or drop_ins
        configs.append(ConfigInput(name, None, documents, flag_values, name, drop_ins, texts, tuple(common)))
    elif not configs:
        unread += common
    return tuple(configs), tuple(unread)


# --- files ----------------------------------------------------------------------------------


def _configurations(path: str, texts: dict[str, str], report: Report) -> Iterator[tuple[Found, str]]:
    """The configurations of a file, each with what to call it."""
    if is_bundle(path):
        from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - it reads with this module

        document = open_bundle(path).config_document()
        yield Found(document.root), document.file
        return
    yield from _in_text(*_text(path, texts), report)


def config_in(text: str, name: str) -> ConfigInput:
    """The one configuration in a text, as it would be read from a file of that name."""
    findings: list[Finding] = []
    forms = list(_in_text(text, name, findings.append))
    if len(forms) != 1:
        raise (
            refusal(findings[0]) if findings else InputError(f"holds {len(forms)} configurations", file=name)
        )
    return ConfigInput(name, forms[0][0], (), forms[0][0].flags, name, findings=tuple(findings))


def _in_text(text: str, name: str, report: Report) -> Iterator[tuple[Found, str]]:
    twice: list[InputError] = []
    try:
        forms = configurations_in_text(text, name)
        if forms is not None:
            yield from _reported(forms, name, report)
            return
        documents = read_documents(text, name, twice.append)
    except InputError as problem:
        place = Place(name, problem.line or 1, problem.field)
        report(found("NW002", place, problem.message, fix=problem.advice))
        return
    for one in twice:
        report(repeated_key(one, documents[0]))
    forms = ()
    for document in documents:
        try:
            forms += kubelet_configurations(document)
        except InputError as problem:
            place = Place(name, problem.line or 1, problem.field)
            report(found("NW002", place, problem.message, fix=problem.advice))
    kinds = [document.value.get("kind") for document in documents if isinstance(document.value, Mapping)]
    if len(documents) > 1 and kinds and all(kind == KIND for kind in kinds):
        place = Place(name, documents[1].line(()))
        report(found("NW105", place, f"the file has {len(documents)} documents"))
        forms = forms[:1]
    yield from _reported(_of_one_node(forms), name, report)


def _reported(forms: Sequence[Found], name: str, report: Report) -> Iterator[tuple[Found, str]]:
    """The configurations, each with what to call it; that there is none is reported."""
    if not forms:
        message = NOTHING_INSIDE
        fix = "give a KubeletConfiguration, or an object that carries one"
        report(found("NW002", Place(name, 1), message, fix=fix))
    for form in forms:
        yield form, name


def _of_one_node(forms: tuple[Found, ...]) -> tuple[Found, ...]:
    """Documents of kubeadm in one file are one node: flags belong to the configuration beside them.

    That is all of it where the node begins the cluster; a node that joins one takes the cluster's.
    """
    flags = [one for one in forms if one.part is None and one.inside in KUBEADM]
    configs = [one for one in forms if one.part is not None and not one.inside]
    if not flags or len(flags) + len(configs) < len(forms):
        return forms
    if not configs:
        return tuple(joined_apart(flags))
    return tuple(
        replace(config, flags=one.flags, platform=one.platform)
        if one.inside == BEGINNING
        else replace(config, flags=one.flags, inside=one.inside, platform=one.platform)
        for config in configs
        for one in joined_apart(flags)
    )


def _text(path: str, texts: dict[str, str]) -> tuple[str, str]:
    raw, name = read_raw(path)
    texts[name] = raw.decode("utf-8-sig", errors="surrogateescape")
    return texts[name], name


def repeated_key(problem: InputError, document: Document) -> Finding:
    """The finding about a key that stands twice in the text of a document."""
    line = problem.line or 0
    first, second, same = remove_repeated(document.root, line)
    keep = [
        correction(f"remove it on line {line}", second, certain=same),
        correction("remove the one before", first, certain=False),
    ]
    return found("NW104", Place(document.file, line), already_set(problem), corrections=keep)


def already_set(problem: InputError) -> str:
    """A repeated key in the words of Go's YAML."""
    key = TWICE.fullmatch(problem.message)
    return f"yaml: unmarshal errors: line {problem.line}: key {key[1] if key else ''} already set in map"


def _field(message: str) -> tuple[str | int, ...]:
    """The field of a message such as ``… Go struct field KubeletConfiguration.reservedMemory.limits …``."""
    named = FIELD.search(message)
    return tuple(named[1].split(".")) if named else ()


# --- flags and drop-ins ---------------------------------------------------------------------


def _flags(given: str, texts: dict[str, str], report: Report) -> tuple[tuple[Flag, ...], str]:
    """Flags, and where they stand (rule 2)."""
    if not given:
        return (), ""
    if is_flags(given) and not is_file(given):
        return read_flags(given), FLAGS
    text, name = _text(given, texts)
    flags = read_flags(text)
    if not flags:
        fix = "give a command line, a file of variables or a systemd unit"
        report(found("NW002", Place(name, 1), "has no flags of a kubelet in it", fix=fix))
    return flags, name


def _drop_ins(directory: str, texts: dict[str, str], report: Report) -> Iterator[Document]:
    """The drop-in files in the kubelet's order; what it ignores or refuses is reported."""
    if not directory:
        return
    if not is_folder(directory):
        what = "is not a directory" if is_there(directory) else "does not exist"
        raise InputError(what, file=directory, advice="give the directory of --config-dir")
    for number, path in enumerate(_walk(Path(directory))):
        if number == MOST_DROP_INS:
            what = f"has more than {MOST_DROP_INS} files"
            raise InputError(what, file=directory, advice="give the directory of --config-dir")
        name = str(path)
        if path.suffix != DROP_IN:
            if _is_configuration(path):
                report(found("NW107", Place(name, 1), f"{path.name} does not end in {DROP_IN}"))
            continue
        text, _ = _text(name, texts)
        twice: list[InputError] = []
        try:
            documents = read_documents(text, name, twice.append)
        except InputError as error:
            report(drop_in_refusal(name, error, f"error: {error.message}"))
            continue
        for one in twice:
            report(drop_in_refusal(name, one, f"error: strict decoding error: {already_set(one)}"))
        if not isinstance(documents[0].value, Mapping):
            report(drop_in_refusal(name, None, "error: is not a mapping"))
            continue
        yield documents[0]


def _walk(folder: Path) -> Iterator[Path]:
    """Files in the order of their names, folders where their name comes; links to folders are left out."""
    for path in members(folder):
        if is_folder(path) and not path.is_symlink():
            yield from _walk(path)
        elif not is_folder(path):
            yield path


def _is_configuration(path: Path) -> bool:
    try:
        if not is_file(path):
            return False
        with opened(path) as file:
            return KIND.encode() in file.read(SNIFFED)
    except InputError:
        return False
