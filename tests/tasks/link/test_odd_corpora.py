"""Corpora of one article, of articles that are all copies, and of forty languages."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import Article, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.tasks.link.predictor import LinkPredictor

SAYINGS = (
    "The minister opened the new bridge over the river",
    "El ministro inauguró el nuevo puente sobre el río",
    "Le ministre a inauguré le nouveau pont sur la rivière",
    "Der Minister eröffnete die neue Brücke über den Fluss",
    "部长为河上的新桥揭幕",
    "大臣は川に架かる新しい橋を開通させた",
    "장관이 강 위의 새 다리를 개통했다",
    "Министр открыл новый мост через реку",
    "Міністр відкрив новий міст через річку",
    "افتتح الوزير الجسر الجديد فوق النهر",
    "השר פתח את הגשר החדש מעל הנהר",
    "मंत्री ने नदी पर नए पुल का उद्घाटन किया",
    "মন্ত্রী নদীর উপর নতুন সেতু উদ্বোধন করেন",
    "அமைச்சர் ஆற்றின் மீது புதிய பாலத்தை திறந்தார்",
    "మంత్రి నదిపై కొత్త వంతెనను ప్రారంభించారు",
    "รัฐมนตรีเปิดสะพานใหม่ข้ามแม่น้ำ",
    "ລັດຖະມົນຕີເປີດຂົວໃໝ່ຂ້າມແມ່ນ້ຳ",
    "រដ្ឋមន្ត្រីបានបើកស្ពានថ្មី",
    "ဝန်ကြီးသည် မြစ်ကူးတံတားသစ်ကို ဖွင့်လှစ်ခဲ့သည်",
    "Bộ trưởng khánh thành cây cầu mới qua sông",
    "Menteri membuka jembatan baru di atas sungai",
    "Bakan nehir üzerindeki yeni köprüyü açtı",
    "Ο υπουργός εγκαινίασε τη νέα γέφυρα",
    "Ministr otevřel nový most přes řeku",
    "Minister otworzył nowy most na rzece",
    "A miniszter megnyitotta az új hidat a folyón",
    "Ministrul a deschis noul pod peste râu",
    "Министърът откри новия мост над реката",
    "Ministeren åbnede den nye bro over floden",
    "Ministern öppnade den nya bron över floden",
    "Ministeri avasi uuden sillan joen yli",
    "Minister avas uue silla üle jõe",
    "Ministrs atklāja jauno tiltu pār upi",
    "Ministras atidarė naują tiltą per upę",
    "მინისტრმა გახსნა ახალი ხიდი მდინარეზე",
    "Նախարարը բացեց նոր կամուրջը գետի վրա",
    "وزیر نے دریا پر نئے پل کا افتتاح کیا",
    "وزیر پل جدید را روی رودخانه افتتاح کرد",
    "Waziri alifungua daraja jipya juu ya mto",
    "O ministro inaugurou a nova ponte sobre o rio",
)
"""A minister opens a bridge, in forty languages."""


def corpus(texts: list[str]) -> Corpus:
    """Articles of some texts, and the sayings as posts about them, in turns."""
    articles = Articles.of([Article(text, str(number)) for number, text in enumerate(texts)])
    posts = [Post(text, f"p{number}", (str(number % len(texts)),)) for number, text in enumerate(SAYINGS)]
    return Corpus(articles, Posts.of(posts))


def ranked(data: Corpus, *, learned: bool) -> LinkPredictor:
    """``best`` without labels; with what a bag learned of the texts too."""
    predictor = LinkPredictor.untrained(data.articles, data.posts, network="bag" if learned else "")
    for _ in predictor.learn(data.posts) if learned else ():
        pass
    return predictor


@pytest.mark.parametrize("learned", [False, True])
def test_forty_languages_find_their_own(learned: bool) -> None:
    data = corpus([f"{text}. {text}" for text in SAYINGS])
    scores = ranked(data, learned=learned).scores(data.posts).whole()
    assert scores.argmax(1).tolist() == list(range(len(SAYINGS)))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("num", [1, 6])
def test_one_article_and_copies_are_all_alike(num: int, learned: bool) -> None:
    """Of each post; between posts the one that says the article is still the likeliest."""
    data = corpus([SAYINGS[0]] * num)
    predictor = ranked(data, learned=learned)
    scores = predictor.scores(data.posts).whole()
    assert np.isfinite(scores).all() and np.ptp(scores, axis=1).max() < 1e-6
    assert scores[:, 0].argmax() == 0
    (answer,) = predictor.predict(list(data.posts.records())[:1])
    assert sorted(link.value for link in answer.choices) == [str(number) for number in range(num)]
    # A product of one post with six copies in single precision may round the last of them differently.
    assert np.ptp([link.score for link in answer.choices]) < 1e-6


@pytest.mark.parametrize("model", ["best", "tfidf", "bag"])
@pytest.mark.parametrize("texts", [[SAYINGS[0]] * 6, list(SAYINGS)], ids=["copies", "languages"])
def test_labels_teach_finite_weights(model: str, texts: list[str]) -> None:
    data = corpus(texts)
    predictor = LinkPredictor(model)
    list(predictor.fit(data))
    assert np.isfinite(predictor.scores(data.posts).whole()).all()
    assert predictor.predict([Post("")])[0].choices
