/* Runs a fuzz target over saved inputs, so that every corpus is also an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    static uint8_t data[1 << 20];
    size_t size = fread(data, 1, sizeof(data), file);
    fclose(file);
    /* A copy of the exact size, so that a read past the end is seen by AddressSanitizer. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact == NULL)
        return -1;
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int replayed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            fprintf(stderr, "cannot open corpus %s\n", argv[i]);
            return 1;
        }
        struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            if (replay_file(path) < 0) {
                fprintf(stderr, "cannot read %s\n", path);
                return 1;
            }
            replayed++;
        }
        closedir(dir);
    }
    printf("%d inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
