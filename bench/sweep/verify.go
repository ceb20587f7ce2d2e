package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Verify runs a share of the cells that have a result again and compares bytes. It
// returns how many it ran, and the cells that differ. The same seed takes the same cells.
func Verify(ctx context.Context, f Folder, share float64, seed uint64, progress func(done int)) (ran int, differ []*Cell, err error) {
	p, err := f.Plan()
	if err != nil {
		return 0, nil, err
	}
	if program := thisProgram(); p.Program != program {
		return 0, nil, fmt.Errorf("%s was planned by %s, and this is %s: only the same program gives the same bytes", f, p.Program, program)
	}
	draw := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample
	l := loader{folder: f, plan: p}
	for c, err := range f.cells(p, 0, p.Cells) {
		if err != nil {
			return ran, differ, err
		}
		if draw.Float64() >= share {
			continue
		}
		was, err := f.get(fileOf(resultsDir, c.Hash))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return ran, differ, err
		}
		is, err := l.run(ctx, c, nil)
		if ctx.Err() != nil {
			return ran, differ, context.Cause(ctx)
		}
		if err != nil {
			return ran, differ, fmt.Errorf("%v: %w", c, err)
		}
		ran++
		if !bytes.Equal(was, is) {
			differ = append(differ, c)
		}
		if progress != nil {
			progress(ran)
		}
	}
	return ran, differ, nil
}

// ParseShare reads a share above 0 and up to 1: 0.01 or 1%.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x > 0) || x > 1 {
		return 0, fmt.Errorf("%s: expected a share above 0 and up to 1, such as 1%% or 0.01", text)
	}
	return x, nil
}
