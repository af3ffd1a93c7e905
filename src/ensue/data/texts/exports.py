"""JSON that is no flat table: exports of labelling tools, and documents that hold all records in one object.

==================  ===========================================================================================
doccano             ``{"text": "…", "label": ["pos"]}``, or ``labels``
label studio        ``{"data": {"text": "…"}, "annotations": [{"result": [{"value": {"choices": ["pos"]}}]}]}``
label studio (min)  ``{"text": "…", "sentiment": "pos"}``, or ``{"choices": ["pos"]}`` in its place
prodigy             ``{"text": "…", "accept": ["pos"], "answer": "accept"}``
parts               ``{"train": [["text", "label"], …], "val": […]}`` (CLINC150), or lists of objects
columns             ``{"text": ["…", …], "label": ["…", …]}``
==================  ===========================================================================================

A list of one label is that label, an empty one is none, and several are a set of labels.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ensue.data.encodings import parsed_json
from ensue.data.files import Content
from ensue.data.schema import plain_name
from ensue.data.table import read_object, sample_objects
from ensue.data.texts.label_sets import UNIT
from ensue.errors import DataError
from ensue.lines import listed, quoted

Object = Mapping[str, object]
_SCALARS = (str, int, float, type(None))
_ANSWERS = ("accept", "reject", "ignore")
_RECORD = ("text", "data", "label", "id")
"""Fields of a record; an object that has one is no document of many records."""


@dataclass(frozen=True)
class LabelFields:
    """Which fields of an object hold labels.

    Attributes:
        names: names of labels as :func:`~ensue.data.schema.plain_name` leaves them.
        texts: those of texts.
        strict: whether annotations are refused that are no labels of a text.
        stated_name: the name that is stated for the label.
    """

    names: Collection[str] = ()
    texts: Collection[str] = ()
    strict: bool = True
    stated_name: str = ""

    def holds(self, name: str) -> bool:
        """Return whether a field of this name holds labels."""
        return name == self.stated_name or plain_name(name) in (*self.names, "choices")

    def one(self, name: str, value: object, where: str) -> object:
        """Return the label in a field, several with ``UNIT`` between them, ``UNIT`` for an empty list, or ``None``.

        Raises:
            DataError: spans of the text.
        """
        if isinstance(value, dict):
            # A choice of Label Studio, or a span of Prodigy and doccano, which is no label of a text.
            inner = [value[key] for key in ("choices", "label", "rating") if key in value]
            if not {"start", "start_offset"} & value.keys() and len(inner) == 1:
                return self.one(name, inner[0], where)
            value = [[value]]
        if not isinstance(value, list):
            return value
        # doccano writes spans as [start, end, label].
        if any(isinstance(item, list) for item in value):
            self.refuse_spans(name, where)
            return None
        # Two annotators with the same label agree on one.
        labels = list(dict.fromkeys(label for item in value if (label := self.one(name, item, where)) is not None))
        if not value:
            return UNIT
        return UNIT.join(map(str, labels)) if len(labels) > 1 else labels[0] if labels else None

    def agreed(self, name: str, values: Sequence[object], where: str) -> object:
        """Return the label, or the set of labels, that all annotators of a text give.

        Raises:
            DataError: they disagree.
        """
        answers = [label for value in values if (label := self.one(name, value, where)) not in (None, UNIT)]
        labels = list(dict.fromkeys(answers))
        if len(labels) > 1 and self.strict:
            texts = " and ".join(quoted(str(label).replace(UNIT, ";")) for label in labels[:2])
            raise DataError(
                f"{where}: annotators give different labels in field {quoted(name)}: {texts}; mark one annotation as "
                "the ground truth, or remove the text"
            )
        return labels[0] if len(labels) == 1 else None

    def refuse_spans(self, name: str, where: str) -> None:
        """Refuse spans of a text where its label is wanted.

        Raises:
            DataError: naming the field.
        """
        if self.strict:
            raise DataError(
                f"{where}: field {quoted(name)} holds spans of the text, not a label; export labels of whole texts, "
                "or name another field with --columns label=…"
            )


def flattened(content: Content, fields: LabelFields) -> Content:
    """Return JSON Lines of flat objects, one per line as before; the file itself where its objects are flat.

    Raises:
        DataError: annotations that are not labels of a text.
    """
    # A document is taken apart into its records; JSON Lines are flattened line by line.
    document = _document(content)
    if document is not None:
        return _lines(content, _records(document, fields, str(content.path)))
    if not any(_is_nested(sample, fields) for sample in sample_objects(content)):
        return content
    pairs = ((f"{content.path}, line {number}", line) for number, line in content.lines())
    return _lines(content, (_flat(read_object(line, at), fields, at) if line.strip() else None for at, line in pairs))


def _lines(content: Content, objects: Iterable[Object | None]) -> Content:
    lines = ("" if fields is None else json.dumps(fields, ensure_ascii=False) for fields in objects)
    return replace(content, data="\n".join(lines).encode("utf-8", errors="surrogatepass"))


def _is_nested(sample: Object, fields: LabelFields) -> bool:
    # Other nested fields, such as metadata, do not concern the reader of labels.
    nested = (name for name, value in sample.items() if isinstance(value, list | dict))
    return _is_task(sample) or sample.get("answer") in _ANSWERS or any(map(fields.holds, nested))


def _is_task(sample: Object) -> bool:
    """Return whether an object is a task of Label Studio."""
    return isinstance(sample.get("data"), dict) and isinstance(_annotations(sample), list)


def _annotations(sample: Object) -> object:
    return sample.get("annotations", sample.get("completions"))


def _flat(sample: Object, fields: LabelFields, where: str) -> dict[str, object]:
    if _is_task(sample):
        return _task(sample, fields, where)
    flat: dict[str, object] = {name: value for name, value in sample.items() if isinstance(value, _SCALARS)}
    if sample.get("answer") in _ANSWERS and fields.stated_name != "answer":
        return flat | {"label": _answered(sample, fields, where)}
    for name, value in sample.items():
        if fields.holds(name) and isinstance(value, list | dict):
            # A field of labels keeps its name; one called choices becomes the label.
            is_label = name == fields.stated_name or plain_name(name) in fields.names
            flat[name if is_label else "label"] = fields.one(name, value, where)
    if "text" not in flat and isinstance(flat.get("data"), str):
        flat["text"] = flat.pop("data")  # doccano's other name of it
    return flat


def _answered(sample: Object, fields: LabelFields, where: str) -> object:
    """Return the label of an example of Prodigy: what was accepted."""
    if sample["answer"] == "ignore":
        return None
    if isinstance(sample.get("accept"), list):
        return fields.one("accept", sample["accept"], where) if sample["answer"] == "accept" else None
    if sample["answer"] == "reject" and fields.strict:
        raise DataError(
            f"{where}: the label {quoted(sample.get('label'))} was rejected, so the correct label is unknown; "
            "remove the text, or use the answer as the label with --columns label=answer"
        )
    return fields.one("label", sample.get("label"), where)


def _task(sample: Object, fields: LabelFields, where: str) -> dict[str, object]:
    """Return a task of Label Studio: the fields of its data, and its choices under the names of their controls."""
    data = sample["data"]
    annotations = _annotations(sample)
    assert isinstance(data, dict) and isinstance(annotations, list)
    # A cancelled annotation is no answer; where one is the ground truth, it alone counts.
    finished = [entry for entry in annotations if isinstance(entry, dict) and not entry.get("was_cancelled")]
    truth = [entry for entry in finished if entry.get("ground_truth")] or finished
    choices: dict[str, list[object]] = {}
    for annotation in truth:
        for result in annotation.get("result") or []:
            if result.get("type") in ("choices", "rating"):
                choices.setdefault(str(result.get("from_name")), []).append(result.get("value"))
            elif result.get("type") in ("labels", "hypertextlabels"):
                fields.refuse_spans(str(result.get("from_name")), where)
    flat = {name: value for name, value in data.items() if isinstance(value, _SCALARS)} | {"id": sample.get("id")}
    # One control is the label, whatever its name; several need a choice.
    labels = {name: fields.agreed(name, values, where) for name, values in choices.items()}
    if len(labels) > 1 and fields.strict and not fields.stated_name:
        raise DataError(
            f"{where}: several controls give labels, {listed(list(labels))}; choose one with --columns "
            f"label={next(iter(labels))}"
        )
    if len(labels) == 1:
        labels = {"label": next(iter(labels.values()))}
    # A task with a single text has it under any name.
    words = [name for name, value in flat.items() if isinstance(value, str)]
    if len(words) == 1 and plain_name(words[0]) not in fields.texts:
        flat["text"] = flat.pop(words[0])
    return {**flat, "label": None, **labels} if len(labels) < 2 else {**flat, **labels}


def _document(content: Content) -> Object | None:
    """Return the one object of a file whose values hold its records; ``None`` of JSON Lines, and of what is no JSON."""
    # One line that is JSON, or several of which the first is not: the file is one document.
    lines = content.head(2)
    alone = (parsed_json(lines[0]) is not None) == (len(lines) == 1)
    document = parsed_json(content.data[:].decode("utf-8-sig", "replace")) if alone else None
    if not isinstance(document, dict) or _is_task(document):
        return None
    if any(isinstance(document.get(name), str) for name in _RECORD):
        return None
    are_columns = len(document) > 1 and all(isinstance(value, list) for value in document.values())
    lists = (value for value in document.values() if isinstance(value, list) and value)
    return document if are_columns or any(isinstance(value[0], list | dict) for value in lists) else None


def _records(document: Object, fields: LabelFields, where: str) -> list[Object]:
    """Return the records of a document, with the names of their parts where it has several."""
    lists = [column for column in document.values() if isinstance(column, list)]
    is_named = any(plain_name(name) in fields.texts for name in document)
    # Columns of one length, one of them called a text: transposed into records.
    if is_named and len(lists) == len(document) and len(set(map(len, lists))) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    split = {name: rows for name, value in document.items() if isinstance(value, list) and (rows := [*_part(value)])}
    if not split:
        raise DataError(f"{where}: an object of {listed(list(document))}, none of which holds records")
    return [{**row, **({"part": name} if len(split) > 1 else {})} for name, rows in split.items() for row in rows]


def _part(rows: list[object]) -> Iterator[dict[str, object]]:
    """Yield the records in a list: pairs of text and label, or objects, in datasets-server's rows too."""
    for row in rows:
        if isinstance(row, list) and len(row) == 2 and all(isinstance(value, _SCALARS) for value in row):
            yield {"text": row[0], "label": row[1]}
        elif isinstance(row, dict):
            inner = row.get("row")
            yield inner if isinstance(inner, dict) else row
