"""The reader of what serving engines print when they start: memory, KV cache, concurrency, and why a start failed.

The formats that are known, by the release that prints them:

- vLLM 0.3 to 0.10, first engine (V0): blocks; from 0.6.3 the memory profile, in one line up to 0.6.4 and in several
  after, and the maximum concurrency.
- vLLM 0.7 to 0.33, second engine (V1): `# GPU blocks` up to 0.7, then `GPU KV cache size`; the weights in GB, in GiB,
  in `GiB memory`; from 0.10.2 one line with what was free and what is used; from 0.17 the estimate of the CUDA graphs,
  from 0.21 inside of the budget; at last the size and the concurrency in one line.
- SGLang 0.2 to 0.5: weights by the memory that they leave, one pool or several (sliding windows, states, latent
  caches), graphs by phase. Its GB are 2**30 bytes.
- TensorRT-LLM 0.5 to 0.21, C++ runtime; 0.17 to 1.2, PyTorch back end with its memory profile.

Prefixes and JSON lines of collectors, colours, CR LF and records that run into each other are read through.
A format that isn't known gives no value, and what a complete log would have is listed in `missing`.
"""

from service.readers.start_up_log.facts import StartUpLog
from service.readers.start_up_log.lines import text_of
from service.readers.start_up_log.reading import read_start_up_log

__all__ = ["StartUpLog", "read_start_up_log", "text_of"]
