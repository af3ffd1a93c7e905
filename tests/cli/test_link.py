"""Task ``link`` as a person runs it: every verb, a review at the terminal, and one line for every mistake."""

from __future__ import annotations

import csv
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from tests.cli.conftest import Ensue, Ran, run
from tests.encoders import install
from tests.processes import PLAIN, Started
from tests.tasks.link.checks import NAMES, article, post
from tests.test_figures import fetches


class Files(NamedTuple):
    """Articles, labelled posts, and the folder of a model that learned them."""

    articles: Path
    posts: Path
    story: Path
    model: Path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Tests read them and leave them alone."""
    place = tmp_path_factory.mktemp("links")
    found = Files(place / "articles.jsonl", place / "posts.csv", place / "story.jsonl", place / "m")
    found.articles.write_text("".join(f"{article(name).to_json()}\n" for name in NAMES))
    found.story.write_text(f"{article('ferry').to_json()}\n{article('storm').to_json()}\n")
    rows = ["id,text,about,likes"]
    for number in range(6):
        rows += [f"{own.id},{own.text},{own.about[0]},{number}" for own in (post(name, number) for name in NAMES)]
    rows += ["again,RT @x: harbour and captain with night!,ferry,9"]
    found.posts.write_text("\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        ran = run(patch, "fit", "link", found.posts, "--articles", found.articles, "-o", found.model, "--device=cpu")
    assert ran.code == 0, ran.err
    assert "held-out posts: MRR" in ran.err and "weights fitted on held-out posts: sum " in ran.err
    assert "cross-validation: 5 folds of 73 posts, each scored by a model trained on the others" in ran.err
    assert "MRR of each score alone: sum " in ran.err and "top-1: mean predicted probability " in ran.err
    return found


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.evaluation.bootstrap.RESAMPLES", 20)


def check_refused(ran: Ran, message: str) -> None:
    """Exit code 2, nothing on stdout, and this as the last line."""
    assert (ran.code, ran.out, ran.lines[-1]) == (2, "", f"ensue: {message}")


def test_an_installed_encoder_is_asked_too(
    ensue: Ensue, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    bare = tmp_path / "bare.csv"
    pl.read_csv(files.posts).drop("about").write_csv(bare)
    plain = ensue("link", files.story, bare, "--json")
    ran = ensue("link", files.story, bare, "--encoder", "stand-in", "--json")
    assert ran.code == 0, ran.err
    assert "no model folder: lexical scores and stand-in, no probabilities unless posts are labelled" in ran.err
    assert ran.out != plain.out
    alone = ensue("link", files.story, bare, "--model", "sbert", "--encoder", "stand-in", "--json")
    assert alone.code == 0 and "no model folder: stand-in, no probabilities" in alone.err
    check_refused(
        ensue("link", files.story, bare, "--model", "sbert"),
        "sbert needs an encoder: --set encoder=NAME (of `ensue link`, --encoder NAME), a folder or a name that "
        "sentence-transformers knows",
    )
    check_refused(
        ensue("link", files.story, bare, "--model", "tfidf", "--encoder", "stand-in"),
        "model tfidf uses no encoder; remove it, or use best or sbert",
    )
    check_refused(
        ensue("link", files.story, bare, "--folder", files.model, "--encoder", "stand-in"),
        "--folder holds a model and its encoder; remove --model and --encoder",
    )


def test_check_counts_links_and_copies(ensue: Ensue, files: Files) -> None:
    ran = ensue("check", files.posts, "--articles", files.articles)
    assert ran.code == 0, ran.err
    assert ran.cells[0][:2] == ("articles", "12")
    assert ran.cells[2] == ("links", "73", "between 73 posts and 12 articles, at most 7 per article")
    found = json.loads(ensue("check", files.posts, "--articles", files.articles, "--json").out)
    assert (found["posts"], found["most_posts"], found["near_copies"]) == (73, 7, 1)


FOURCAT = (
    "id,thread_id,timestamp,subject,body,author\n"
    "7,7,2024-01-01 10:00:00,,The ferry sails at night,ann\n"
    "8,7,2024-01-01 10:01:00,,The ferry sails at night,bo\n"
    "9,9,2024-01-01 10:02:00,,Bread is baked early,cy\n"
)


def test_check_knows_a_collectors_posts_for_what_they_are(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(FOURCAT)
    for options in ([], ["--task", "link"]):
        ran = ensue("check", path, *options)
        assert ran.code == 0, ran.err
        assert ran.lines[0] == f"{path}: 4cat (text=body, id=id, title=subject); 3 rows"
        assert ran.cells[:2] == [
            ("posts", "3", "words: median 5, max 5"),
            ("near copies", "1", "posts that nearly repeat an earlier one"),
        ]
        assert "training and scoring need the articles: give them with --articles" in ran.out
    found = json.loads(ensue("check", path, "--json").out)
    assert (found["kind"], found["texts"], found["understood"]["layout"]) == ("posts", 3, "4cat")
    # It may be a log of threads and authors all the same, for who asks for that.
    ran = ensue("check", path, "--task", "next")
    assert ran.code == 0 and "session=thread, item=author, time=time" in ran.err, ran.err
    check_refused(
        ensue("check", path, "--task", "posts"), "task 'posts' is not known; choose from next, classify, suggest, link"
    )
    refused = ensue("check", path, "--compare-to", path)
    assert refused.code == 2 and "--compare-to needs the articles too; give them with --articles" in refused.err


def test_check_knows_the_stories_of_media_cloud(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "stories.csv"
    path.write_text(
        "stories_id,publish_date,title,url,language\n1,2024-01-01,Ferry adds night crossings,https://a.b/c,en\n"
    )
    ran = ensue("check", path)
    assert ran.code == 0, ran.err
    assert ran.lines[0] == f"{path}: media cloud (id=stories_id, title=title); 1 row"
    assert ran.cells[0] == ("articles", "1", "words: median 4, max 4")


def test_half_an_emoji_on_stdin_is_replaced_and_counted(ensue: Ensue, files: Files) -> None:
    ran = ensue("predict", files.model, "-", "--json", stdin='{"text": "ferry \\ud83d"}\nplain \\ud83d text\n')
    assert ran.code == 0, ran.err
    assert ran.lines == ["-: 1 half of a character, as cut emoji leave, replaced by \ufffd"]
    assert len(ran.out.splitlines()) == 2


def test_without_labels_the_texts_can_be_learned_first(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    bare = tmp_path / "bare.csv"
    pl.read_csv(files.posts).drop("about").write_csv(bare)
    ran = ensue("link", files.story, bare, "--unsupervised", "--json")
    assert ran.code == 0, ran.err
    assert "pretrain: 20 epochs" in ran.err
    assert "no model folder: lexical scores and vectors trained on these texts, no probabilities" in ran.err
    assert ran.out != ensue("link", files.story, bare, "--json").out
    check_refused(
        ensue("link", files.story, bare, "--unsupervised", "--folder", files.model),
        "--unsupervised is for best without --folder or --encoder; remove them",
    )


def test_link_works_at_once(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    bare = tmp_path / "bare.csv"
    pl.read_csv(files.posts).drop("about").write_csv(bare)
    ran = ensue("link", files.story, bare, "-k", "20", "-o", tmp_path / "out.csv")
    assert ran.code == 0, ran.err
    assert "no model folder: lexical scores, no probabilities unless posts are labelled" in ran.err
    assert "73 posts, 2 articles; near copies of another post: 1" in ran.out and "(and 1 that repeats it)" in ran.out
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "text", "likes", "score", "article", "sentence", "copy_of"]
    assert len(rows) == 73 and {row["article"] for row in rows[:12]} == {"ferry", "storm"}
    assert {row["id"].split("-")[0] for row in rows[:13]} == {"ferry", "storm", "again"}
    assert rows[0]["sentence"] in " ".join(f"{article(name).title}\n{article(name).body}" for name in NAMES)
    (copy,) = [row for row in rows if row["copy_of"]]
    assert {copy["id"], copy["copy_of"]} == {"again", "ferry-0"}


def test_labels_give_probabilities_and_a_cut(ensue: Ensue, files: Files) -> None:
    found = json.loads(ensue("link", files.story, files.posts, "-k", "2", "--json").out)
    assert found["probabilities"] == "fitted on the labels of this file"
    assert found["cut"]["relevant"] == 13 and found["cut"]["recall_interval"][0] <= found["cut"]["recall"]
    assert 0.5 < found["best"][0]["probability"] <= 1 and found["repeat_another"] == 1
    shown = ensue("link", files.story, files.posts)
    assert "at P = .5, with the labels of this file: cross-validated, " in shown.out
    assert "probabilities by the labels of this file: 13 posts of the story, 60 that count as outside it" in shown.err
    assert found["labels"] == {"story": 13, "learned": 0, "taught": True}


def test_link_asks_a_folder(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    ran = ensue("link", files.story, files.posts, "--folder", files.model, "-o", tmp_path / "out.jsonl")
    assert ran.code == 0, ran.err
    assert "probabilities fitted on held-out posts" in ran.out
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [*rows[0]][-4:] == ["probability", "article", "sentence", "copy_of"] and rows[0]["probability"] > 0.5


def test_only_new_posts_are_encoded(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    small = [f"--set={pair}" for pair in ("dim=8", "heads=2", "epochs=1")]
    ran = ensue("fit", "link", files.posts, "--articles", files.articles, "-o", tmp_path / "m", "--model=ast", *small)
    assert ran.code == 0, ran.err
    first = ensue("link", files.story, files.posts, "--folder", tmp_path / "m")
    assert f"{tmp_path / 'm.posts'}: 73 posts encoded, 0 were there, 0 deleted" in first.err
    lines = files.posts.read_text().splitlines()
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join([*lines[:11], "new,a ferry at night,ferry,1"]) + "\n")
    again = ensue("link", files.story, fewer, "--folder", tmp_path / "m")
    assert "1 post encoded, 10 were there, 63 deleted" in again.err
    (tmp_path / "m.posts" / "fitted.json").unlink()
    check_refused(
        ensue("link", files.story, fewer, "--folder", tmp_path / "m"),
        f"{tmp_path / 'm.posts'}: fitted.json is missing or unreadable (No such file or directory); give the folder of "
        "an index, or delete it to build it again",
    )


def test_a_review_asks_stops_and_goes_on(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    place = tmp_path / "labels.jsonl"
    ran = ensue("link", files.story, files.posts, "--review", "--labels", place, stdin="y\nmaybe\nn\ny\nq\n")
    assert ran.code == 0, ran.err
    assert (
        "y, n, ? (unsure), u (undo) or q?" in ran.out
        and "3 of 73 posts read, 2 relevant; recall cannot be estimated yet" in ran.err
    )
    assert "stopped before the target; run the same command again to continue" in ran.err
    kept = [json.loads(line) for line in place.read_text().splitlines()]
    assert [own["relevant"] for own in kept] == [True, False, True]
    assert "probabilities after 3 labels, 2 of them yes" in ran.out
    on = ensue("link", files.story, files.posts, "--review", "--labels", place, stdin="n\n" * 80)
    assert on.code == 0 and "(3 so far)" in on.err
    enough = r"(\d+) of 73 posts read, 2 relevant, at most 0 unread: recall at least 1.00; the target is reached"
    assert (read := re.search(enough, on.err)) is not None and 20 < int(read[1]) <= 73
    assert len([line for line in place.read_text().splitlines() if '"id"' in line]) == int(read[1])


def test_a_review_takes_back_leaves_open_and_counts(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    place, out = tmp_path / "labels.jsonl", tmp_path / "out.csv"
    review = ("link", files.story, files.posts, "--review", "--labels", place, "-o", out)
    # Undone, the post is asked about again at once, and then the one that stood there.
    ran = ensue(*review, "--annotator", "ana", stdin="y\n?\nu\nn\ny\nq\n")
    assert ran.code == 0, ran.err
    assert "0 of 73 read: 0 yes, 0 no, 0 unsure" in ran.out
    assert "2 of 73 read: 1 yes, 0 no, 1 unsure; ana 2" in ran.out
    assert "3 of 73 read: 2 yes, 1 no, 0 unsure; ana 3" in ran.out
    first, second, third = ran_ids = [row["id"] for row in map(json.loads, place.read_text().splitlines())][:3]
    assert second == third and "nothing left to undo" not in ran.out, ran_ids
    # Another day the last label can still be taken back; unsure posts count as missed.
    ran = ensue(*review, "--annotator", "ana", stdin="u\n?\nq\n")
    assert "3 of 73 posts read, 1 relevant, 1 unsure; recall cannot be estimated yet" in ran.err
    # A second person is asked about the open one, and about all that another one labelled with --overlap 1.
    ran = ensue(*review, "--annotator", "bo", "--overlap", "1", stdin="n\ny\ny\nu\ny\nq\n")
    assert ran.code == 0, ran.err
    assert "ana: yes: you disagree" in ran.out and "ana: no: you disagree" in ran.out
    assert "2 posts with two or more labels, 0 with the same label; Krippendorff's alpha -0.50" in ran.out
    assert "disagreements, 2 of 2; other annotators are asked next" in ran.out
    rows = {row["id"]: row["reviewed"] for row in csv.DictReader(out.read_text().splitlines())}
    assert rows[first] == "ana: yes, bo: no" and sum(map(bool, rows.values())) == 3
    ran = ensue(*review, "--annotator", "cy", stdin="u\nq\n")
    assert "nothing left to undo" in ran.out


def test_two_people_at_one_queue_share_the_work(files: Files, tmp_path: Path) -> None:
    place = tmp_path / "labels.jsonl"
    answers = "".join("y\n" if number < 5 else "n\n" for number in range(15)) + "q\n"  # both find posts left
    typing = f"import io, sys; sys.stdin = io.StringIO({answers!r}); {PLAIN}"
    command = ("link", files.story, files.posts, "--review", "--labels", place, "--annotator")
    people = [Started(*command, name, code=typing) for name in ("ana", "bo")]
    with ThreadPoolExecutor(2) as pool:
        said = [out for out, _ in pool.map(lambda person: person.communicate(timeout=120), people)]
    assert [person.returncode for person in people] == [0, 0]
    rows = [row for row in map(json.loads, place.read_text().splitlines()) if "id" in row]
    assert len({row["id"] for row in rows}) == len(rows) == 30, "a post was asked of both"
    assert {row["by"] for row in rows} == {"ana", "bo"} and "labels by annotator" in said[0] + said[1]


def test_a_list_without_labels_says_where_it_stops(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    story, bare, out = tmp_path / "story.html", tmp_path / "bare.csv", tmp_path / "out.csv"
    story.write_text(
        f"<html><h1>Ferry</h1><p>{article('ferry').body} It is what they said and this was all of it.</html>"
    )
    frame = pl.read_csv(files.posts).drop("about")
    frame.write_csv(bare)
    ran = ensue("link", story, bare, "-o", out)
    assert ran.code == 0, ran.err
    assert f"{story}: web page; 1 row" in ran.err
    assert "suggested cutoff: score " in ran.out
    found = json.loads(ensue("link", story, bare, "--json").out)
    assert found["cut"] is None
    cut = found["suggested_cut"]
    scores = pl.read_csv(out)
    assert cut["posts"] == (scores["score"] >= cut["cut"]).sum() == 7  # six of the ferry, and the copy of one
    assert set(scores.filter(pl.col("score") >= cut["cut"])["id"]) == {*(f"ferry-{n}" for n in range(6)), "again"}
    few = tmp_path / "few.csv"
    frame.head(20).write_csv(few)
    assert "no cutoff suggested: it needs at least 30 posts" in ensue("link", story, few).out


def test_labels_stand_beside_the_posts_by_story(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    posts = Path(shutil.copy(files.posts, tmp_path))
    for number, story in enumerate((files.story, files.articles), 1):
        assert ensue("link", story, posts, "--review", stdin="y\nq\n").code == 0
        assert len([*tmp_path.glob("*.review-*.jsonl")]) == number


def test_evaluate_writes_the_card(ensue: Ensue, files: Files) -> None:
    ran = ensue("evaluate", files.model, files.posts, "--articles", files.articles)
    assert ran.code == 0, ran.err
    assert "P at least .5: " in ran.out and ": MRR +" in ran.out
    assert "articles with posts in training: " in ran.out and " of 12; " in ran.out
    card = (files.model / "CARD.md").read_text()
    assert "| model | MRR | Recall@10 |" in card and "every article in full" in card
    found = json.loads(ensue("evaluate", files.model, files.posts, "--articles", files.articles, "--json").out)
    assert [row["model"] for row in found["rows"]][-2:] == ["tfidf", "bm25"]


def test_compare_counts_beside(ensue: Ensue, files: Files) -> None:
    both = ("--articles", files.articles)
    ran = ensue("compare", "link", files.posts, *both, "--test", files.posts, "--models", "bm25", "--json")
    assert ran.code == 0, ran.err
    assert [row["model"] for row in json.loads(ran.out)["rows"]] == ["bm25", "tfidf"]


def test_queries_judgements_and_documents_in_three_files(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    rows = pl.read_csv(files.posts)
    queries, train, test = (tmp_path / name for name in ("queries.tsv", "train.txt", "test.txt"))
    queries.write_text("".join(f"q{row}\t{text}\n" for row, text in enumerate(rows["text"])))
    judged = [f"q{row} 0 {about} 1\n" for row, about in enumerate(rows["about"])]
    train.write_text("".join(judged[:-6]))
    test.write_text("".join(judged[-6:]))
    named = ("--queries", queries, "--documents", files.articles)
    for options in (("--qrels", train, *named), (train, *named), (queries, "--qrels", train, *named[2:])):
        ran = ensue("check", *options, "--json")
        assert ran.code == 0 and json.loads(ran.out)["links"] == len(judged) - 6, ran.err
    fitted = ensue("fit", "link", *named, "--qrels", train, "-o", tmp_path / "m", "--model=tfidf")
    assert fitted.code == 0, fitted.err
    ran = ensue("evaluate", tmp_path / "m", test, *named, "--json")
    assert ran.code == 0 and json.loads(ran.out)["protocol"]["data"].startswith("6 posts"), ran.err
    ran = ensue("compare", "link", train, "--test", test, *named, "--models=tfidf", "--json")
    assert ran.code == 0, ran.err
    check_refused(
        ensue("check", "--qrels", train, "--queries", queries),
        "--queries and --qrels: name the documents too, with --documents FILE",
    )
    check_refused(
        ensue("evaluate", tmp_path / "m", test, *named, "--qrels", train),
        f"{test}: with --queries the file of each part is its judgements; leave --qrels out",
    )
    check_refused(ensue("check"), "no data is named: give a file, or of task link --queries, --qrels and --documents")
    check_refused(
        ensue("fit", "next", "-o", tmp_path / "n", *named), "--articles means nothing to task next; leave it out"
    )


def test_a_part_that_is_scored_is_not_trained_on(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    """One file for both: the part is of what is scored, and training takes the file's own part."""
    split = tmp_path / "split.csv"
    parts = pl.when(pl.int_range(pl.len()) < 48).then(pl.lit("train")).otherwise(pl.lit("test"))
    pl.read_csv(files.posts).with_columns(split=parts).write_csv(split)
    both = ("--articles", files.articles, "--split", "test")
    ran = ensue("compare", "link", split, *both, "--test", split, "--models", "best", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["protocol"]["data"] == "25 posts, 25 links"
    assert found["protocol"]["leaked"].endswith("; posts that were trained on: 1")  # the one that repeats another


def test_predict_and_explain(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    lines = 'a ferry in the harbour\n\n{"text": "storm and flood", "id": "p9"}\n'
    ran = ensue("predict", files.model, "-", "-k", "2", "--json", stdin=lines)
    assert ran.code == 0, ran.err
    one, empty, other = map(json.loads, ran.out.splitlines())
    assert (empty["choices"], empty["events"]) == ([], 0)
    assert one["choices"][0]["value"] == "ferry" and other["id"] == "p9" and other["choices"][0]["value"] == "storm"
    shown = ensue("predict", files.model, files.posts, "-k", "1")
    assert shown.code == 0 and "in vocabulary: " in shown.out
    page = tmp_path / "why.html"
    ran = ensue("explain", files.model, "-", "--html", page, stdin="a ferry in the harbour\n")
    assert ran.code == 0 and "score drop of the best article without each word:" in ran.out, ran.err
    assert "score drop when a word is taken out" in page.read_text() and fetches(page.read_text()) == []


def test_update_keeps_the_former_version(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    ran = ensue("fit", "link", files.posts, "--articles", files.articles, "-o", tmp_path / "m", "--model=tfidf")
    assert ran.code == 0, ran.err
    new = tmp_path / "new.jsonl"
    new.write_text('{"id": "zoo", "title": "The zoo", "body": "zebra lion giraffe"}\n')
    ran = ensue("update", tmp_path / "m", files.posts, "--articles", new)
    assert ran.code == 0, ran.err
    assert "accepted: version 2 is active" in ran.out
    ran = ensue("predict", tmp_path / "m", "-", "-k", "1", "--json", stdin="zebra\n")
    assert json.loads(ran.out)["choices"][0]["value"] == "zoo"
    assert ensue("update", tmp_path / "m", "--rollback").code == 0


def test_bad_texts_are_counted_or_read(ensue: Ensue, tmp_path: Path) -> None:
    """Empty posts, only links, double ids, no body, HTML, twenty scripts, and an article of 70,000 words."""
    articles = tmp_path / "articles.jsonl"
    long = " ".join(f"word{number}" for number in range(70_000))
    stories = [
        {"id": "long", "title": "Long", "body": f"{long} needle"},
        {"id": "bare", "title": "Only a title about kites", "body": ""},
        {"id": "html", "title": "", "body": "<p>Red &amp; blue</p><script>no()</script>"},
    ]
    articles.write_text("".join(f"{json.dumps(own)}\n" for own in stories))
    scripts = (
        "привет мир", "你好世界", "こんにちは", "안녕하세요", "مرحبا", "שלום", "नमस्ते", "হ্যালো", "สวัสดี", "γειά σου",
        "ნახვამდის", "բարեւ", "ສະບາຍດີ", "မင်္ဂလာပါ", "ជំរាបសួរ", "வணக்கம்", "హలో", "ಹಲೋ", "ሰላም", "ഹലോ",
    )  # fmt: skip
    texts = ["word5 word7777 word69999 needle", "", "https://t.co/x @me", "kites!", "<b>red</b> &amp; blue", *scripts]
    posts = tmp_path / "posts.jsonl"
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)] + [{"id": 0, "text": "another"}]
    posts.write_text("".join(f"{json.dumps(own)}\n" for own in rows))
    ran = ensue("link", articles, posts, "--json", "-k", "30", "-o", tmp_path / "out.jsonl")
    assert ran.code == 0, ran.err
    assert "1 of 26 rows has no text: left out" in ran.err
    assert "1 of 26 rows holds nothing but links and mentions: left out" in ran.err
    assert "1 of 26 rows has the id of an earlier row and another text: left out" in ran.err
    assert "1 of 3 articles has no body: the title is read" in ran.err and "held HTML tags" in ran.err
    found = {row["id"]: row for row in json.loads(ran.out)["best"]}
    assert (found["0"]["article"], found["3"]["article"], found["4"]["article"]) == ("long", "bare", "html")
    assert len(found) == 23 and all(row["score"] >= 0 for row in found.values())


def test_mistakes_are_one_line(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    check_refused(
        ensue("link", files.story, files.posts, "--model", "ast"),
        "model 'ast' must be trained first: `ensue fit link POSTS --articles ARTICLES --model ast -o FOLDER`, then "
        "--folder FOLDER; without training there are best, tfidf, bm25, sbert",
    )
    check_refused(
        ensue("link", files.story, files.posts, "-o", tmp_path / "out.xls"),
        f"-o {tmp_path / 'out.xls'}: the name must end in .csv, .tsv, .jsonl, .ndjson, .parquet",
    )
    check_refused(
        ensue("link", files.story, files.posts, "--review", "--json"),
        "--review needs a terminal; remove --json",
    )
    check_refused(ensue("link", files.story, files.posts, "-k", "0"), "-k 0: show at least 1 post")
    check_refused(
        ensue("fit", "link", files.posts, "-o", tmp_path / "x"),
        f"{files.posts}: holds posts; give the file of articles with --articles FILE",
    )
    check_refused(
        ensue("evaluate", files.model, files.posts, "--protocol", "paper"),
        "--protocol means nothing to task link; leave it out",
    )
    check_refused(
        ensue("predict", files.model, "-", stdin=b"\xff\n"), "-: not UTF-8 (invalid start byte at byte 0); send UTF-8"
    )
    check_refused(
        ensue("predict", files.model, "-", stdin='{"text": 3}\n'), 'stdin, line 1: field "text" must be a text'
    )
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "a", "relevant": true}\n{"id": 3}\n')
    check_refused(
        ensue("link", files.story, files.posts, "--review", "--labels", labels),
        f'{labels}, line 2: is not a label; expected {{"id": "p1", "relevant": true}}',
    )
    ran = ensue("link", tmp_path / "none.jsonl", files.posts)
    assert ran.code == 2 and len(ran.lines) == 1
