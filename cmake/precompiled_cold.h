// What rooms that run once for a program include besides, precompiled: most read or write JSON.
#pragma once

#include "cmake/precompiled.h"
#include "ir/support/json_fields.h"
#include "ir/support/json_writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
