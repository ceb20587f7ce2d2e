package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// Tasks that run no cells of scenarios, such as seeds of a storm or rows of a validation, keep their results in a
// folder, too: by a hash, so that a task is done once, whoever runs it and however often.

// taskHash is the hash of a task: of the program that runs, and of all that its result
// depends on. It is empty if the program can't be told from others.
func taskHash(essence string) string {
	if thisProgram() == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(thisProgram() + "\x00" + essence))
	return hex.EncodeToString(sum[:])
}

// kept is a task's result as its file has it: with the task that it is of.
type kept struct {
	Task   string          `json:"task"`
	Result json.RawMessage `json:"result"`
}

// Once returns the result of a task, JSON, which essence tells from all others of the
// program: what the folder has, or else what run gives, which it then has. From run nil is
// no result, and nothing is kept. What the folder has counts if it is of the task, and check
// has no error for it; otherwise run gives another in its place, and where it gives none
// the error is a *Misfit.
func (f Folder) Once(essence string, check func(result []byte) error, run func() ([]byte, error)) ([]byte, error) {
	hash := taskHash(essence)
	if hash == "" {
		return nil, errors.New("the program can't be told from others: its own file can't be read")
	}
	result, misfit := f.kept(hash, essence, check)
	switch {
	case misfit == nil:
		return result, nil
	case !errors.Is(misfit, fs.ErrNotExist) && !errors.As(misfit, new(*Misfit)):
		return nil, misfit
	}
	result, err := run()
	if err != nil {
		return nil, err
	}
	if result == nil {
		if errors.Is(misfit, fs.ErrNotExist) {
			misfit = nil
		}
		return nil, misfit
	}
	text, err := json.Marshal(kept{essence, result})
	if err != nil {
		return nil, err
	}
	keep := f.add
	if errors.As(misfit, new(*Misfit)) {
		keep = f.put
	}
	if err := keep(fileOf(resultsDir, hash), text); err != nil {
		return nil, fmt.Errorf("%v: %w", f, err)
	}
	return result, nil
}

// kept reads what the folder has of a task.
func (f Folder) kept(hash, essence string, check func(result []byte) error) ([]byte, error) {
	name := fileOf(resultsDir, hash)
	text, err := f.get(name)
	if err != nil && !errors.As(err, new(*infile.TooLarge)) {
		return nil, err
	}
	var k kept
	if err == nil {
		err = infile.JSON(text, &k)
	}
	if err == nil && k.Task != essence {
		err = fmt.Errorf("it says that it is of %q, expected %q", k.Task, essence)
	}
	if err == nil {
		err = check(k.Result)
	}
	if err != nil {
		return nil, &Misfit{f.path(name), err}
	}
	return k.Result, nil
}
