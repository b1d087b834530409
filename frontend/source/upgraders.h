// What operators meant before: PyTorch changed some of them, and an archive is to compute what it computed when it was
// saved. The operators of then are written in terms of those of today, as functions in the source language.
#pragma once

#include "ir/support/source.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace tscompile::source {

struct Upgrader {
  std::string_view kind;      // "aten::div"
  std::string_view overload;  // as operators are named today
  int64_t changedAt;          // the first version with today's meaning
  std::string_view function;  // in the module below
};

// All of an operator kind, in the order in which overloads are tried.
std::span<const Upgrader> upgradersOf(std::string_view kind);

inline constexpr std::string_view kUpgraderModule = "tscompile.before";
SourcePtr upgraderSource();

}  // namespace tscompile::source
