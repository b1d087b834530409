// Headers that nearly every source includes, precompiled. Sources include what they need all the same.
#pragma once

#include "ir/graph/builder.h"
#include "ir/graph/graph.h"
#include "ir/operators/infer_call.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <complex>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
