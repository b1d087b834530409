#include "frontend/weights.h"
