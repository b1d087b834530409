#!/usr/bin/env python3
"""Which aten schemas of PyTorch 1.13 a forward pass on a CPU can contain, and which of them tscompile has not.

    schema_gaps.py build/release/tools/tscompile [--list]

What a forward pass cannot contain is said by RULES, in order: the first that matches a schema counts. What is left and
missing is listed with the reason in KNOWN; exits 1 if one has none there, or has a reason and is not missing.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

RULES = [
    ("gradients", r"backward|[_.]grad|grad_|jvp|_double_|requires_grad|retains?_grad|_fw_primal|_make_dual|_unpack_dual|"
                  r"is_leaf|output_nr|get_gradients|_version\b"),
    ("results into tensors that are given (made of the functional form)", r"!\)(\[\])? ?(out|[A-Za-z_]+)\b.*\*?.*_out\b|"
                  r"Tensor\([a-z]!\)(\[\])? out|\.out\b|_out\b|_helper\(|_resize_output|_copy_from"),
    ("sparse layouts", r"[sS]parse|coalesce|_nnz|to_dense|dense_dim|_coo_|_csr|_csc|_bsr|_bsc|crow_|ccol_|row_indices|"
                       r"col_indices|hspmm|_spdiags|native_norm|sspaddmm|smm\b|aten::_?(indices|values)(_copy)?\b|_dim[IV]\b|_rowwise_prune"),
    ("other devices", r"cuda|cudnn|cufft|miopen|mkldnn|mps|xla|vulkan|metal|nnpack|onednn|_thnn_|pin_memory|is_pinned|"
                      r"record_stream|_triton_|_to_cpu|batch_norm_(elemt|gather|stats|update)|fused_dropout|"
                      r"_masked_scale|_flash_"),
    ("quantisation while training, and its packing", r"fbgemm|fake_quant|_choose_qparams|choose_qparams|moving_avg|"
                                                       r"_to_fp16|quantize_per|int_repr|q_(scale|zero|per)|qint|"
                                                       r"aten::quantized_(gru|lstm|rnn)"),
    ("names of dimensions", r"[dD]imname|names\b|named_|names_|align_(to|as|tensors)|rename"),
    ("nested tensors", r"[nN]ested|to_padded_tensor"),
    ("optimisers", r"_foreach|_fused_adam|_amp_"),
    ("remote references, files, functorch, Python", r"confirmed_by_owner|is_owner|local_value|aten::owner|to_here|aten::save|"
                                                       r"batch_dim|_ncf_|_foobar|_test_|_debug_|_same_feature|_same_storage|"
                                                       r"has_compatible_shallow|hacked_twin|_linalg_check|einsum\.sublist"),
    ("storage taken over", r"aten::set_?[.(]|aten::set_data|resize(_as)?\("),
]

SAMPLING = "draws from a distribution that generative code samples outside of models"
SOBOL = "state of a quasi-random generator, which no model holds"
PROTOTYPE = "a prototype that no module of PyTorch calls"
LAZY = "a lazy bit of eager tensors, which exported texts do not show"
KNOWN = {
    "aten::_standard_gamma": SAMPLING,
    "aten::_sample_dirichlet": SAMPLING,
    "aten::binomial": SAMPLING,
    "aten::poisson": SAMPLING,
    "aten::_sobol_engine_draw": SOBOL,
    "aten::_sobol_engine_ff_": SOBOL,
    "aten::_sobol_engine_initialize_state_": SOBOL,
    "aten::_sobol_engine_scramble_": SOBOL,
    "aten::chalf": "complex numbers of two halves, a dtype that tensors here have not",
    "aten::_transformer_decoder_only_layer_fwd": PROTOTYPE,
    "aten::_native_decoder_only_multi_head_attention": PROTOTYPE,
    "aten::_compute_linear_combination": "inside of matrix_exp, which is one operator here",
    "aten::_euclidean_dist": "inside of cdist, which is one operator here",
    "aten::_pad_enum": "inside of pad, which is one operator here",
    "aten::_pack_sequence": "makes an object of Python's",
    "aten::_neg_view": LAZY,
    "aten::_neg_view_copy": LAZY,
    "aten::_is_zerotensor": LAZY,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--list", action="store_true", help="print every schema that a rule leaves out")
    arguments = parser.parse_args()
    told = json.loads(subprocess.run([arguments.tool, "ops", "--all", "--format", "json"], check=True, text=True,
                                     capture_output=True).stdout)["operators"]
    status = {o["name"]: o["status"] for o in told}
    out = collections.Counter()
    there, missing = 0, []
    with open(os.path.join(ROOT, "runtime/ops/catalog.txt"), encoding="utf-8") as f:
        schemas = [line.strip() for line in f if line.startswith("aten::")]
    for schema in schemas:
        name = schema.split("(")[0]
        if status.get(name) != "missing":
            there += 1
            continue
        rule = next((why for why, pattern in RULES if re.search(pattern, schema)), None)
        if rule:
            out[rule] += 1
            if arguments.list:
                print(f"{rule}: {schema}")
        else:
            missing.append(name)
    for why, count in out.most_common():
        print(f"{count:5} left out: {why}")
    print(f"{there:5} there\n{len(missing):5} missing")
    faults = 0
    for name in missing:
        print(f"  {name}: {KNOWN.get(name, 'NO REASON')}")
        faults += name not in KNOWN
    for name in sorted(set(KNOWN) - set(missing)):
        print(f"  {name}: has a reason and is not missing")
        faults += 1
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
