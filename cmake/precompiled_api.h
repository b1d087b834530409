// Headers that the facade and the tool include, precompiled.
#pragma once

#include "api/compiler.h"
#include "cmake/precompiled.h"
#include "ir/support/json_fields.h"
#include "ir/support/json_writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
