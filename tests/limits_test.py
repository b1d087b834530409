#!/usr/bin/env python3
"""Limits of memory and time hold in every command that lowers or runs: what asks for more ends with exit code 6 and words, within the
limit and a fixed amount for the program itself.

    limits_test.py TOOL [--only TEXT]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

MEMORY, MOST_BYTES = "64M", 160 << 20
TIME, MOST_SECONDS = "500ms", 5  # of processor time; the machine may be busy
SAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "samples")


def graph(body, inputs="%x : Tensor", result="%y"):
    return f"graph({inputs}):\n{body}\n  return ({result})\n"


CONSTANTS = ("  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n  %true : bool = prim::Constant[value=1]()\n"
             "  %many : int = prim::Constant[value=9223372036854775807]()\n  %none : NoneType = prim::Constant()\n")


def loop(carried, body, kind="Any"):
    """What grows with each turn, without an end."""
    return graph(CONSTANTS + f"  %first : {kind} = {carried}\n  %y : {kind} = prim::Loop(%many, %true, %first)\n"
                 f"    block0(%i : int, %a : {kind}):\n      {body}\n      -> (%true, %b)")


def nested_lists(depth):
    lines, last = [CONSTANTS.rstrip()], "%x"
    for i in range(depth):
        lines.append(f"  %l{i} : Any[] = prim::ListConstruct({last}, {last})")
        last = f"%l{i}"
    return graph("\n".join(lines) + f"\n  %y : int = aten::len({last})")


# Texts that take memory without an end, and what gives their input.
MEMORY_BOMBS = {
    "nested_lists": loop("prim::ListConstruct(%x)", "%b : Any[] = prim::ListConstruct(%a, %a)", "Any[]"),
    "nested_tuples": loop("prim::TupleConstruct(%x)", "%b : Any = prim::TupleConstruct(%a, %x)"),
    "nested_dicts": loop("prim::TupleConstruct(%x)", "%d : Dict(int, Any) = prim::DictConstruct(%one, %a)\n      %b : Any = prim::TupleConstruct(%d)"),
    "long_list": loop("prim::ListConstruct(%x)", "%b : Tensor[] = aten::append(%a, %x)", "Tensor[]"),
    "ints": loop("prim::ListConstruct(%one)", "%b : int[] = aten::append(%a, %i)", "int[]"),
    "strings": loop('prim::Constant[value="ab"]()', "%b : str = aten::add(%a, %a)", "str"),
    "small_tensors": loop("prim::ListConstruct(%x)", "%t : Tensor = aten::add(%x, %x, %one)\n      %b : Tensor[] = aten::append(%a, %t)", "Tensor[]"),
    "views": loop("prim::ListConstruct(%x)", "%t : Tensor = aten::unsqueeze(%x, %zero)\n      %b : Tensor[] = aten::append(%a, %t)", "Tensor[]"),
    "large_tensors": loop("aten::relu(%x)", "%l : Tensor[] = prim::ListConstruct(%a, %a)\n      %b : Tensor = aten::cat(%l, %zero)", "Tensor"),
    "scratch": graph("  %f : int = prim::Constant[value=0]()\n  %t : bool = prim::Constant[value=1]()\n  %s : int[] = prim::Constant[value=[3000000, 12]]()\n"
                     "  %n : NoneType = prim::Constant()\n  %g : Tensor = aten::zeros(%s, %n, %n, %n, %n)\n  %y : Tensor, %i : Tensor = aten::sort(%g, %f, %t)"),
    "lowering": nested_lists(26),
    "folding": graph("  %s : int[] = prim::Constant[value=[300000000]]()\n  %n : NoneType = prim::Constant()\n  %o : int = prim::Constant[value=1]()\n"
                     "  %z : Tensor = aten::ones(%s, %n, %n, %n, %n)\n  %w : Tensor = aten::add(%z, %z, %o)\n  %y : Tensor = aten::add(%x, %w, %o)"),
}
RUNNING = {"run": ["run", "FILE", "-i", "x=2:f32:ones"], "interpret": ["run", "FILE", "-i", "x=2:f32:ones", "--executor", "interpreter"],
           "profile": ["profile", "FILE", "-i", "x=2:f32:ones"], "bench": ["bench", "FILE", "-i", "x=2:f32:ones"],
           "verify": ["verify", "FILE", "-i", "x=2:f32:ones"]}
LOWERING = {"lower": ["lower", "FILE"], "partition": ["partition", "FILE"], "explain": ["explain", "FILE", "%x"],
            "compile": ["compile", "FILE", "-o", "out.tse"]}

# Texts that take time without an end.
TIME_BOMBS = {
    "loop": loop("aten::relu(%x)", "%b : Tensor = aten::relu(%a)", "Tensor"),
    "reduction": graph("  %s : int[] = prim::Constant[value=[100000000000000]]()\n  %f : bool = prim::Constant[value=0]()\n  %n : NoneType = prim::Constant()\n"
                       "  %o : Tensor = aten::select(%x, %c, %c)\n  %e : Tensor = aten::expand(%o, %s, %f)\n  %y : Tensor = aten::sum(%e, %n)".replace(
                           "  %s :", "  %c : int = prim::Constant[value=0]()\n  %s :", 1)),
    "waiting": graph('  %y : Tensor = tensorrt_llm::AllReduce[group=[0, 1], timeout_ms=86400000](%x)'),
}
FOLDING = graph("  %s : int[] = prim::Constant[value=[1]]()\n  %v : NoneType = prim::Constant()\n  %h : float = prim::Constant[value=0.5]()\n"
                "  %p : Tensor = aten::ones(%s, %v, %v, %v, %v)\n  %o : Tensor = aten::mul(%p, %h)\n  %n : int = prim::Constant[value=4611686018427387904]()\n"
                "  %y : Tensor = aten::special_laguerre_polynomial_l(%o, %n)")


class Check:
    def __init__(self, tool, folder):
        self.tool, self.folder, self.failures, self.runs = tool, folder, [], 0

    def run(self, args):
        errors = os.path.join(self.folder, "errors")
        with open(errors, "wb") as err:
            child = subprocess.Popen([self.tool, *args], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        end, pid = time.monotonic() + 60, 0
        while not pid and time.monotonic() < end:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            time.sleep(0.005)
        if not pid:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        self.runs += 1
        with open(errors, errors="replace") as file:
            words = file.read(2000)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, words

    def expect(self, what, args, codes):
        code, seconds, peak, words = self.run(args)
        problem = ("the exit code" if code not in codes else "no words" if code and not words.strip() else "the memory" if peak > MOST_BYTES
                   else "the time" if seconds > MOST_SECONDS else "")
        if problem:
            self.failures.append(f"{what}: {problem}: exit {code}, {seconds:.1f} s, {peak >> 20} MiB: {words[:300]!r}")

    def write(self, name, text):
        path = os.path.join(self.folder, name + ".ir")
        with open(path, "w") as file:
            file.write(text)
        return path

    def bombs(self, texts, commands, limit, codes):
        for name, text in texts.items():
            path = self.write(name, text)
            for command, args in commands.items():
                self.expect(f"{command} {name}", [path if a == "FILE" else a for a in args] + limit, codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    options = parser.parse_args()
    memory, both = ["--limit-mem", MEMORY], ["--limit-mem", MEMORY, "--limit-time", "10s"]
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options.tool, folder)
        never = {n: t for n, t in MEMORY_BOMBS.items() if n not in ("lowering", "folding")}
        check.bombs(never, RUNNING, both, [6])
        check.bombs(never, LOWERING, both, [0, 6])
        check.bombs({n: MEMORY_BOMBS[n] for n in ("lowering", "folding")}, {**RUNNING, **LOWERING}, both, [0, 6])
        check.bombs(TIME_BOMBS, RUNNING, ["--limit-time", TIME], [6, 8])
        check.bombs({"endless_folding": FOLDING}, {**RUNNING, **LOWERING}, ["--limit-time", TIME], [0, 6])
        relu = check.write("relu", graph("  %y : Tensor = aten::relu(%x)"))
        check.expect("large input", ["run", relu, "-i", "x=500000000:f32:zeros", *memory], [6])
        gpt = f"{SAMPLES}/language/byte_gpt/model"
        check.expect("build", ["build", f"{gpt}.ir", "-w", f"{gpt}.weights", "--set", "max_seq_len=32", "-o", "built", *memory], [0])
        check.expect("generate", ["generate", "built", "--prompt-ids", "1,2", "--max-new-tokens", "2", *memory], [0])
        check.expect("generate with a large cache", ["build", f"{gpt}.ir", "-w", f"{gpt}.weights", "--set", "max_seq_len=32", "--set",
                                                     "kv_cache_blocks=100000", "-o", "large", *memory], [0, 6])
        if os.path.exists(os.path.join(folder, "large/config.json")):
            check.expect("generate with a large cache", ["generate", "large", "--prompt-ids", "1", *memory], [6])
        # Weights that cannot be packed are packed again, or not at all, by the next run.
        one = check.write("one_conv", graph(CONSTANTS + '  %a : Tensor = prim::GetAttr[name="a"](%self)\n  %l : int[] = prim::ListConstruct(%one, %one)\n'
                                            "  %y : Tensor = aten::conv2d(%x, %a, %none, %l, %l, %l, %one)", "%self : __torch__.M, %x : Tensor"))
        with open(one + ".weights", "w") as file:
            file.write("a = 512x512x3x3:f32:randn(std=0.02)\n")
        few = ["--limit-mem", "20M", "--threads", "1"]
        for command in (["run"], ["bench", "--duration", "20ms"], ["profile", "--runs", "3"], ["report", "--duration", "20ms", "-o", "r.html"]):
            check.expect(f"{command[0]} of a large weight", [*command, one, "-w", one + ".weights", "--shape", "x=1x512x14x14", *few], [0, 6])
        for failure in check.failures:
            print("FAIL", failure)
        print(f"{check.runs} runs, {len(check.failures)} failures")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
