// Headers that nearly every unit test includes, precompiled. Tests include what they need all the same.
#pragma once

#include "api/compile.h"
#include "api/module.h"
#include "cmake/precompiled.h"
#include "frontend/text/parse.h"
#include "ir/graph/printer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
