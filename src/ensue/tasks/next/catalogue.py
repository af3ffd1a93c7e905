"""The models of task ``next``.

Each row of ``MODELS`` is a name, its class (``MODULE:CLASS``, imported when it is made), default settings and schedule
(``None``: it is not trained). Importing this module does not import torch.
"""

from dataclasses import replace

from ensue.registry import Models
from ensue.schedule import Schedule
from ensue.tasks.next.settings import (
    CORE_SCHEDULE,
    FACTORS_SCHEDULE,
    FPMC_SCHEDULE,
    GRU4REC_SCHEDULE,
    NARM_SCHEDULE,
    SASREC_SCHEDULE,
    SRGNN_SCHEDULE,
    STAMP_SCHEDULE,
    BERT4RecSettings,
    BlendSettings,
    BPRMFSettings,
    CascadeBlendSettings,
    CORESettings,
    CountingSettings,
    CYANRNNSettings,
    FPMCSettings,
    GRU4RecSettings,
    HiDANSettings,
    NARMSettings,
    RecurrentSettings,
    RMTPPSettings,
    SANSRSettings,
    SASRecSettings,
    SharedSettings,
    SRGNNSettings,
    STAMPSettings,
    VSKNNSettings,
)

_HIDAN = Schedule(batch_size=16, monitor="mrr")
_CASCADE_BLEND = Schedule(epochs=20, learning_rate=2e-3, weight_decay=0.0, monitor="mrr", patience=3)
_BLEND = replace(CORE_SCHEDULE, max_steps=2_000)
"""On short logs the count-based models decide: on 5,600 sessions of Diginetica the held-out MRR was .259 after one
epoch and after ten, while that of the network alone rose from .19 to .24."""
_SANSR = CORE_SCHEDULE
_HIDAN_PAPER = Schedule(check_every=5, refit=False)
"""Batches of 32 cascades, L2 of 5e-5 and the loss watched every five epochs, as in the authors' released program."""
_SANSR_PAPER = replace(_SANSR, decay=False, learning_rate=1e-3, epochs=30, patience=3, refit=False)
"""Adam at its usual step size; the paper gives no other number of its training."""

MODELS = Models(
    "next",
    {
        # Each row: class of the model, settings, schedule (None for baselines, which are counted in one pass).
        "hidan": ("models.hidan:HiDAN", HiDANSettings(), _HIDAN),
        "hidan-paper": ("models.hidan:HiDAN", HiDANSettings(loss="ce"), _HIDAN_PAPER),
        "hidan-nua": ("models.hidan:HiDAN", HiDANSettings(user_attention=False), _HIDAN),
        "hidan-nca": ("models.hidan:HiDAN", HiDANSettings(cascade_attention=False), _HIDAN),
        "hidan-nt": ("models.hidan:HiDAN", HiDANSettings(time_decay=False), _HIDAN),
        "rnn": ("models.recurrent:Recurrent", RecurrentSettings(), _HIDAN),
        "lstm": ("models.recurrent:Recurrent", RecurrentSettings(cell="lstm"), _HIDAN),
        "rmtpp": ("models.rmtpp:RMTPP", RMTPPSettings(), _HIDAN),
        "att-rnn": ("models.recurrent:Recurrent", RecurrentSettings(attention=True), _HIDAN),
        "att-lstm": ("models.recurrent:Recurrent", RecurrentSettings(cell="lstm", attention=True), _HIDAN),
        "cyan-rnn": ("models.cyan:CYANRNN", CYANRNNSettings(), _HIDAN),
        "cascade-blend": ("ensembles.cascade_blend:CascadeBlend", CascadeBlendSettings(), _CASCADE_BLEND),
        "sansr": ("models.sansr:SANSR", SANSRSettings(), _SANSR),
        "sansr-paper": ("models.sansr:SANSR", SANSRSettings(loss="bpr_softmax"), _SANSR_PAPER),
        "sansr-rc": ("models.sansr:SANSR", SANSRSettings(residual=False), _SANSR),
        "core": ("models.core:CORE", CORESettings(), CORE_SCHEDULE),
        "blend": ("ensembles.blend:Blend", BlendSettings(), _BLEND),
        "bpr-mf": ("models.factors:BPRMF", BPRMFSettings(), FACTORS_SCHEDULE),
        "fpmc": ("models.factors:FPMC", FPMCSettings(), FPMC_SCHEDULE),
        "gru4rec": ("models.gru4rec:GRU4Rec", GRU4RecSettings(), GRU4REC_SCHEDULE),
        "narm": ("models.narm:NARM", NARMSettings(), NARM_SCHEDULE),
        "stamp": ("models.stamp:STAMP", STAMPSettings(), STAMP_SCHEDULE),
        "sr-gnn": ("models.srgnn:SRGNN", SRGNNSettings(), SRGNN_SCHEDULE),
        "sasrec": ("models.sasrec:SASRec", SASRecSettings(), SASREC_SCHEDULE),
        "esasrec": ("models.esasrec:ESASRec", SASRecSettings(loss="sampled", heads=4, dropout=0.4), SASREC_SCHEDULE),
        "bert4rec": ("models.bert4rec:BERT4Rec", BERT4RecSettings(), SASREC_SCHEDULE),
        "hstu": ("models.hstu:HSTU", SASRecSettings(loss="sampled"), SASREC_SCHEDULE),
        "popularity": ("baselines.counting:Popularity", CountingSettings(), None),
        "recent": ("baselines.recent:Recent", CountingSettings(), None),
        "markov": ("baselines.counting:Markov", CountingSettings(), None),
        "rules": ("baselines.counting:SequentialRules", CountingSettings(), None),
        "own-items": ("baselines.own_items:OwnItems", CountingSettings(window=100), None),
        "cooccurrence": ("baselines.counting:Cooccurrence", CountingSettings(), None),
        "interpolated": ("baselines.interpolated:Interpolated", CountingSettings(window=100), None),
        "vsknn": ("baselines.session_knn:VSKNN", VSKNNSettings(), None),
    },
)
SHARED = SharedSettings()
"""Settings that all models share."""
ABOUT: dict[str, tuple[str, str]] = {
    "hidan": ("cascades: attention over earlier users and their time gaps", "Wang & Li, IJCAI 2019"),
    "hidan-paper": ("HiDAN trained as in its paper and released code", "Wang & Li, IJCAI 2019"),
    "hidan-nua": ("HiDAN without attention between users", "Wang & Li, IJCAI 2019"),
    "hidan-nca": ("HiDAN without attention to the cascade", "Wang & Li, IJCAI 2019"),
    "hidan-nt": ("HiDAN without the decay of time", "Wang & Li, IJCAI 2019"),
    "rnn": ("cascades: a plain recurrent network", "baseline in Wang & Li, IJCAI 2019"),
    "lstm": ("cascades: an LSTM", "baseline in Wang & Li, IJCAI 2019"),
    "rmtpp": ("cascades: a recurrent marked point process", "Du et al., KDD 2016"),
    "att-rnn": ("the recurrent network with attention to its states", "baseline in Wang & Li, IJCAI 2019"),
    "att-lstm": ("the LSTM with attention to its states", "baseline in Wang & Li, IJCAI 2019"),
    "cyan-rnn": ("cascades: a recurrent network with attention and coverage", "Wang et al., IJCAI 2017"),
    "cascade-blend": ("HiDAN with past cascades and hours of activity", ""),
    "sansr": ("sessions: self-attention", "Sun, Tang, Dai & Zhou, IEEE Access 2019"),
    "sansr-paper": ("SANSR with the loss of its paper (Eqs. 7-8)", "Sun, Tang, Dai & Zhou, IEEE Access 2019"),
    "sansr-rc": ("SANSR without residual connections", "Sun, Tang, Dai & Zhou, IEEE Access 2019"),
    "core": ("sessions: a weighted sum of their own items", "after Hou, Hu, Zhang & Zhao, SIGIR 2022"),
    "blend": ("CORE with past sessions and item transitions", ""),
    "bpr-mf": ("matrix factorisation with pairwise ranking loss", "Rendle et al., UAI 2009"),
    "fpmc": ("factorised Markov chain with matrix factorisation", "Rendle, Freudenthaler & Schmidt-Thieme, WWW 2010"),
    "gru4rec": ("sessions: a GRU", "Hidasi & Karatzoglou, CIKM 2018"),
    "narm": ("sessions: a GRU with attention", "Li et al., CIKM 2017"),
    "stamp": ("sessions: attention that favours the latest click", "Liu, Zeng, Mokhosi & Zhang, KDD 2018"),
    "sr-gnn": ("sessions: a gated network on the graph of their items", "Wu et al., AAAI 2019"),
    "sasrec": ("causal Transformer, binary cross-entropy", "Kang & McAuley, ICDM 2018"),
    "esasrec": ("SASRec with LiGR blocks and sampled softmax", "Tikhonovich et al., RecSys 2025"),
    "bert4rec": ("bidirectional Transformer, masked items", "Sun et al., CIKM 2019"),
    "hstu": ("pointwise gated attention that reads the times", "Zhai et al., ICML 2024"),
    "popularity": ("popularity", ""),
    "recent": ("recent popularity", ""),
    "markov": ("first-order Markov chain", ""),
    "rules": ("sequential rules", "Ludewig & Jannach, UMUAI 2018"),
    "own-items": ("repeats of the session, latest first, with sequential rules", ""),
    "cooccurrence": ("first-order Markov chains at any distance", ""),
    "interpolated": ("transitions, repeats and popularity, weighted by likelihood", ""),
    "vsknn": ("nearest past sessions", "Ludewig & Jannach, UMUAI 2018"),
}
"""Description of each model in one line, and its publication."""
COUNTING = ("popularity", "recent", "markov", "rules", "own-items", "cooccurrence", "interpolated", "vsknn")
"""Floors: counted in one pass of at most 30 pairs an event (own-items and interpolated choose their numbers in one more
over nine tenths). An epoch multiplies each event by hundreds of candidates, so none costs what training costs, and none
is left out but VS-kNN by ``replay=0``."""
BEST = ("blend", "cascade-blend")
"""The models among which ``--model best`` decides, on held-out data."""
