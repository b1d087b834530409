// Lowering for runs that go on where others ended (runtime/call/run_state.h).
#pragma once

namespace tscompile {

// An argument of rewrites: what the graph writes to attributes stays a write to them. Without it, nothing but the rest
// of the run sees it.
inline constexpr const char* kKeptState = "kept_state";

}  // namespace tscompile
