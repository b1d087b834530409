// Plugins with one fault each, by name; tests/data/plugin_faults.txt tells how each is found.
#include "runtime/plugin/plugin_sdk.h"

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

// y = 2 x, as it should be; faults take the place of its parts.
struct Right {
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  static void act(tsc::Run&) {}
};

template <class Fault>
struct Faulty : Fault {
  double by = 2;
  static void describe(tsc::Description<Faulty>& d) {
    d.key("faulty", Fault::kName, "1", "y = by * x");
    d.field("by", &Faulty::by, "factor");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    size_t written = Fault::kName == std::string_view("leaves_an_element") ? y.size() - 1 : y.size();
    for (size_t i = 0; i < written; ++i) y[i] = static_cast<float>(by) * x[i];
    Fault::act(r);
  }
};

#define FAULT(name) static constexpr const char* kName = #name
#define ACT static void act([[maybe_unused]] tsc::Run& r)

struct LeavesAnElement : Right {
  FAULT(leaves_an_element);
};

// ---- errors ----
struct ThrowsStd : Right {
  FAULT(throws_std);
  ACT { throw std::runtime_error("my kernel failed: code 17"); }
};
struct ThrowsInt : Right {
  FAULT(throws_int);
  ACT { throw 42; }
};
struct ThrowsInParallel : Right {
  FAULT(throws_in_parallel);
  ACT {
    r.parallelFor(100, 1, [](size_t, size_t) { throw std::runtime_error("part failed"); });
  }
};

// ---- sizes ----
struct NoShape : Right {
  FAULT(no_shape);
  void shapes(tsc::Shapes&) const {}
};
struct NegativeShape : Right {
  FAULT(negative_shape);
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    x.dims.back() = x.dims.back() - 1000;
    s.output(0, x);
  }
};
struct BiggerShape : Right {
  FAULT(bigger_shape);
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    x.dims.back() = x.dims.back() * 1'000'000'000'000;
    s.output(0, x);
  }
};
struct WrongDtype : Right {
  FAULT(wrong_dtype);
  void shapes(tsc::Shapes& s) const { s.output(0, TSC_I64, s.input(0).dims); }
};
struct UnstableShape : Right {
  FAULT(unstable_shape);
  mutable int calls = 0;
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    if (++calls % 2 == 0) x.dims[0] = x.dims[0] + 1;
    s.output(0, x);
  }
};
// Nothing tells it from a plugin that means it.
struct ConstantShape : Right {
  FAULT(constant_shape);
  void shapes(tsc::Shapes& s) const { s.output(0, TSC_F32, {s.constant(3)}); }
};
struct NegativeRows : Right {
  FAULT(negative_rows);
  ACT { r.setRows(0, -5); }
};
struct TooManyRows : Right {
  FAULT(too_many_rows);
  ACT { r.setRows(0, 1'000'000); }
};
struct HugeWorkspace : Right {
  FAULT(huge_workspace);
  size_t workspace(const tsc::Tensors&) const { return size_t{1} << 45; }
};

// ---- ends of the process ----
struct NullPointer : Right {
  FAULT(null_pointer);
  ACT {
    uintptr_t address = 8;
    asm volatile("" : "+r"(address));  // compilers see through others
    *reinterpret_cast<volatile int*>(address) = 1;
  }
};
struct Deep {
  static int call(int n) {
    volatile char frame[4096];
    frame[n % 4096] = 1;
    return n > 1 << 30 ? 0 : call(n + 1) + frame[n % 4096];
  }
};
struct StackOverflow : Right {
  FAULT(stack_overflow);
  ACT { r.output(0).data<float>()[0] = static_cast<float>(Deep::call(0)); }
};
struct Aborts : Right {
  FAULT(aborts);
  ACT { std::abort(); }
};
struct Exits : Right {
  FAULT(exits);
  ACT { std::exit(0); }
};
struct Hangs : Right {
  FAULT(hangs);
  ACT {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
};
struct HangsPolitely : Right {
  FAULT(hangs_politely);
  ACT {
    while (!r.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    tsc::invalid("cancelled");
  }
};

// ---- memory ----
void fill(float* from, size_t count) {
  for (size_t i = 0; i < count; ++i) from[i] = 7;
}
struct WritesPastEnd : Right {
  FAULT(writes_past_end);
  ACT { fill(r.output(0).data<float>() + r.output(0).values<float>().size(), 64); }
};
struct WritesFar : Right {
  FAULT(writes_far);
  ACT { fill(r.output(0).data<float>() + r.output(0).values<float>().size(), size_t{1} << 28); }
};
struct PastWorkspace : Right {
  FAULT(past_workspace);
  size_t workspace(const tsc::Tensors&) const { return 64; }
  ACT {
    for (int i = 0; i < 200; ++i) r.workspace().data()[64 + i] = std::byte{1};
  }
};
struct WritesInput : Right {
  FAULT(writes_input);
  ACT { const_cast<float*>(r.input(0).values<float>().data())[0] = 99; }
};
void* volatile forgotten = nullptr;
struct Leaks : Right {
  FAULT(leaks);
  ACT { forgotten = new std::vector<char>(10000); }
};

// ---- results ----
struct RandomResult : Right {
  FAULT(random_result);
  ACT {
    auto y = r.output(0).values<float>();
    if (!y.empty()) y[0] = static_cast<float>(std::rand());
  }
};
struct SharedStatic : Right {
  FAULT(shared_static);
  ACT {
    static float scratch[1024];
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    for (size_t i = 0; i < y.size() && i < 1024; ++i) scratch[i] = x[i];
    std::this_thread::yield();
    for (size_t i = 0; i < y.size() && i < 1024; ++i) y[i] = scratch[i];
  }
};

}  // namespace

TSC_PLUGINS(Faulty<LeavesAnElement>, Faulty<ThrowsStd>, Faulty<ThrowsInt>, Faulty<ThrowsInParallel>, Faulty<NoShape>,
            Faulty<NegativeShape>, Faulty<BiggerShape>, Faulty<WrongDtype>, Faulty<UnstableShape>,
            Faulty<ConstantShape>, Faulty<NegativeRows>, Faulty<TooManyRows>, Faulty<HugeWorkspace>,
            Faulty<NullPointer>, Faulty<StackOverflow>, Faulty<Aborts>, Faulty<Exits>, Faulty<Hangs>,
            Faulty<HangsPolitely>, Faulty<WritesPastEnd>, Faulty<WritesFar>, Faulty<PastWorkspace>, Faulty<WritesInput>,
            Faulty<Leaks>, Faulty<RandomResult>, Faulty<SharedStatic>)
