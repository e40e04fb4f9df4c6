#include "base/place.h"

#include <stdlib.h>

#include "base/mem.h"

static const char *absolute(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] == '/' ? value : NULL;
}

char *place_default_state(bool root)
{
    if (root)
        return mem_dup("/var/lib/opensandbox");
    const char *data = absolute("XDG_DATA_HOME"), *home = absolute("HOME");
    if (data != NULL)
        return mem_printf("%s/opensandbox", data);
    return home != NULL ? mem_printf("%s/.local/share/opensandbox", home) : NULL;
}
