// Two levels. Before calls are inlined, a module's calls can be rewritten by the class that they go to; afterwards
// there is one graph of operators. The first needs no operator to be recognised in what a class is made of; the second
// sees through all calls.
#include "api/lower.h"
#include "samples/rewriting/sample.h"

using namespace tscompile;

namespace {

constexpr const char* kModule = R"(module __torch__.Net {
  parameters {
  }
  attributes {
    gate = <__torch__.HardSigmoid object at 0x1>
  }
  methods {
    method forward {
      graph(%self : __torch__.Net, %x : Tensor):
        %gate : __torch__.HardSigmoid = prim::GetAttr[name="gate"](%self)
        %g : Tensor = prim::CallMethod[name="forward"](%gate, %x)
        %y : Tensor = aten::mul(%x, %g)
        return (%y)

    }
  }
  submodules {
    module __torch__.HardSigmoid {
      parameters {
      }
      attributes {
      }
      methods {
        method forward {
          graph(%self : __torch__.HardSigmoid, %x : Tensor):
            %three : int = prim::Constant[value=3]()
            %one : int = prim::Constant[value=1]()
            %zero : int = prim::Constant[value=0]()
            %six : int = prim::Constant[value=6]()
            %a : Tensor = aten::add(%x, %three, %one)
            %b : Tensor = aten::clamp(%a, %zero, %six)
            %y : Tensor = aten::div(%b, %six)
            return (%y)

        }
      }
      submodules {
      }
    }
  }
}
)";

// Module level: a call of HardSigmoid becomes the operator.
NodeRewrite callToOperator() {
  return {"hardsigmoid_modules", {sym::CallMethod}, [](Node* call, RewriteContext& context) -> Replacement {
            bool wanted = call->inputCount() == 2 && call->input(0)->type()->name() == "__torch__.HardSigmoid";
            if (!wanted) return {};
            Value* y = context.before(call).call(Symbol::of("aten::hardsigmoid"), {call->input(1)}, types().tensor);
            // A call may do anything, so it goes only if that is said.
            return Replacement::of({{call->output(), y}}, {call});
          }};
}

// Graph level: x * hardsigmoid(x), wherever it came from, is hardswish.
NodeRewrite productToHardswish() {
  return patternRewrite("hardswish",
                        sample::pattern("graph(%x):\n"
                                        "  %g = aten::hardsigmoid(%x)\n"
                                        "  %y = aten::mul(%x, %g)\n"
                                        "  return (%y)\n"),
                        sample::pattern("graph(%x):\n  %y = aten::hardswish(%x)\n  return (%y)\n"));
}

void lower(const Module& module, const char* title, const Query& query) {
  Diagnostics diagnostics;
  LowerOptions options;
  options.query = query;
  Result<Module> lowered = module.lowered(options, diagnostics);
  sample::check(diagnostics);
  sample::print(title, *lowered->graph());
}

}  // namespace

int main() {
  Diagnostics diagnostics;
  Result<Module> module = Module::fromText(kModule, "net", {}, diagnostics);
  sample::check(diagnostics);
  Query plain = Query().including({"default"});
  lower(*module, "as it is", plain);
  // inline_calls stands at -2: what comes before it sees calls, what comes after it operators.
  Query modules = plain.withExtra(Plan::walk("modules", {callToOperator()}), -3);
  lower(*module, "module level", modules);
  lower(*module, "both levels", modules.withExtra(Plan::walk("hardswish", {productToHardswish()}), 2.2));
  return 0;
}
