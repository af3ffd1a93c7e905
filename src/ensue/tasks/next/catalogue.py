"""The models of task ``next``.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
"""

from dataclasses import replace

from ensue.schedule import Schedule
from ensue.tasks.next.baselines.counting import Cooccurrence, CountingSettings, Markov, Popularity, SequentialRules
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.baselines.own_items import OwnItems, OwnItemsSettings
from ensue.tasks.next.baselines.recent import Recent
from ensue.tasks.next.baselines.session_knn import VSKNN, VSKNNSettings
from ensue.tasks.next.ensembles.blend import Blend, BlendSettings
from ensue.tasks.next.ensembles.cascade_blend import CascadeBlend, CascadeBlendSettings
from ensue.tasks.next.models import core, factors, gru4rec, narm, stamp
from ensue.tasks.next.models.core import CORE, CORESettings
from ensue.tasks.next.models.cyan import CYANRNN, CYANRNNSettings
from ensue.tasks.next.models.factors import BPRMF, FPMC, BPRMFSettings, FPMCSettings
from ensue.tasks.next.models.gru4rec import GRU4Rec, GRU4RecSettings
from ensue.tasks.next.models.hidan import HiDAN, HiDANSettings
from ensue.tasks.next.models.narm import NARM, NARMSettings
from ensue.tasks.next.models.recurrent import Recurrent, RecurrentSettings
from ensue.tasks.next.models.rmtpp import RMTPP, RMTPPSettings
from ensue.tasks.next.models.sansr import SANSR, SANSRSettings
from ensue.tasks.next.models.stamp import STAMP, STAMPSettings
from ensue.tasks.next.settings import SharedSettings
from ensue.tasks.own import Models

_HIDAN = Schedule(batch_size=16, monitor="mrr")
_CASCADE_BLEND = Schedule(epochs=20, learning_rate=2e-3, weight_decay=0.0, monitor="mrr", patience=3)
_SANSR = core.SCHEDULE
_HIDAN_PAPER = Schedule(check_every=5, refit=False)
"""Batches of 32 cascades, L2 of 5e-5 and the loss watched every five epochs, as in the authors' released program."""
_SANSR_PAPER = replace(_SANSR, decay=False, learning_rate=1e-3, epochs=30, patience=3, refit=False)
"""Adam at its usual step size; the paper gives no other number of its training."""

MODELS = Models(
    "next",
    {
        "hidan": (HiDAN, HiDANSettings(), _HIDAN),
        "hidan-paper": (HiDAN, HiDANSettings(loss="ce"), _HIDAN_PAPER),
        "hidan-nua": (HiDAN, HiDANSettings(user_attention=False), _HIDAN),
        "hidan-nca": (HiDAN, HiDANSettings(cascade_attention=False), _HIDAN),
        "hidan-nt": (HiDAN, HiDANSettings(time_decay=False), _HIDAN),
        "rnn": (Recurrent, RecurrentSettings(), _HIDAN),
        "lstm": (Recurrent, RecurrentSettings(cell="lstm"), _HIDAN),
        "rmtpp": (RMTPP, RMTPPSettings(), _HIDAN),
        "att-rnn": (Recurrent, RecurrentSettings(attention=True), _HIDAN),
        "att-lstm": (Recurrent, RecurrentSettings(cell="lstm", attention=True), _HIDAN),
        "cyan-rnn": (CYANRNN, CYANRNNSettings(), _HIDAN),
        "cascade-blend": (CascadeBlend, CascadeBlendSettings(), _CASCADE_BLEND),
        "sansr": (SANSR, SANSRSettings(), _SANSR),
        "sansr-paper": (SANSR, SANSRSettings(loss="bpr_softmax"), _SANSR_PAPER),
        "sansr-rc": (SANSR, SANSRSettings(residual=False), _SANSR),
        "core": (CORE, CORESettings(), core.SCHEDULE),
        "blend": (Blend, BlendSettings(), core.SCHEDULE),
        "bpr-mf": (BPRMF, BPRMFSettings(), factors.SCHEDULE),
        "fpmc": (FPMC, FPMCSettings(), factors.FPMC_SCHEDULE),
        "gru4rec": (GRU4Rec, GRU4RecSettings(), gru4rec.SCHEDULE),
        "narm": (NARM, NARMSettings(), narm.SCHEDULE),
        "stamp": (STAMP, STAMPSettings(), stamp.SCHEDULE),
        "popularity": (Popularity, CountingSettings(), None),
        "recent": (Recent, CountingSettings(), None),
        "markov": (Markov, CountingSettings(), None),
        "rules": (SequentialRules, CountingSettings(), None),
        "own-items": (OwnItems, OwnItemsSettings(), None),
        "cooccurrence": (Cooccurrence, CountingSettings(), None),
        "interpolated": (Interpolated, OwnItemsSettings(), None),
        "vsknn": (VSKNN, VSKNNSettings(), None),
    },
)
SHARED = SharedSettings()
"""What is set of every model beside its own settings."""
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
    "popularity": ("popularity", ""),
    "recent": ("recent popularity", ""),
    "markov": ("first-order Markov chain", ""),
    "rules": ("sequential rules", "Ludewig & Jannach, UMUAI 2018"),
    "own-items": ("repeats of the session, latest first, with sequential rules", ""),
    "cooccurrence": ("first-order Markov chains at any distance", ""),
    "interpolated": ("transitions, repeats and popularity, weighted by likelihood", ""),
    "vsknn": ("nearest past sessions", "Ludewig & Jannach, UMUAI 2018"),
}
"""What each is, in a line, and where it was published."""
COUNTING = ("popularity", "recent", "markov", "rules", "own-items", "cooccurrence", "interpolated", "vsknn")
"""Floors: counted in one pass of at most 30 pairs an event (own-items and interpolated choose their numbers in one more
over nine tenths). An epoch multiplies each event by hundreds of candidates, so none costs what training costs, and none
is left out but VS-kNN by ``replay=0``."""
BEST = ("blend", "cascade-blend")
"""The models among which ``--model best`` decides, on held-out data."""
