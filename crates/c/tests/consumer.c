/* A program that calls the library: RMSNorm of two rows, and what it refuses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "warpwright.h"

enum { ROWS = 2, COLUMNS = 8 };

static DLTensor tensor(float *data, int32_t axes, int64_t *shape) {
    DLTensor made = {data, {kDLCPU, 0}, axes, {kDLFloat, 32, 1}, shape, NULL, 0};
    return made;
}

int main(void) {
    float *x = aligned_alloc(64, 64), *weight = aligned_alloc(64, 64), *y = aligned_alloc(64, 64);
    int64_t matrix[] = {ROWS, COLUMNS}, row[] = {COLUMNS};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i % 5) - 2;
        y[i] = NAN;
    }
    for (int i = 0; i < COLUMNS; i++) weight[i] = 1 + (float)i;
    DLTensor x_tensor = tensor(x, 2, matrix), weights = tensor(weight, 1, row), y_tensor = tensor(y, 2, matrix);
    if (warpwright_rms_norm(&x_tensor, &weights, &y_tensor, 1e-6, 0, NULL)) {
        printf("error: %s\n", warpwright_error());
        return 1;
    }
    for (int r = 0; r < ROWS; r++) {
        double squares = 0;
        for (int i = 0; i < COLUMNS; i++) squares += x[r * COLUMNS + i] * x[r * COLUMNS + i];
        for (int i = 0; i < COLUMNS; i++) {
            double expected = x[r * COLUMNS + i] / sqrt(squares / COLUMNS + 1e-6) * weight[i];
            if (!(fabs(y[r * COLUMNS + i] - expected) < 1e-5)) return 2;
        }
    }
    if (warpwright_rms_norm(&x_tensor, NULL, &y_tensor, 1e-6, 0, NULL) != 1) return 3;
    printf("right; refused: %s\n", warpwright_error());
    return 0;
}
