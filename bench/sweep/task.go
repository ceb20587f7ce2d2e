package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

// Tasks that run no cells of scenarios, such as seeds of a storm or rows of a validation, keep their results in a
// folder, too: by a hash, so that a task is done once, whoever runs it and however often.

// TaskHash is the hash of a task: of the program that runs, and of all that its result
// depends on. It is empty if the program can't be told from others.
func TaskHash(essence string) string {
	if Program() == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(Program() + "\x00" + essence))
	return hex.EncodeToString(sum[:])
}

// Keep keeps the result of a task, whole or not at all.
func (f Folder) Keep(hash string, result []byte) error {
	return f.add(fileOf(resultsDir, hash), result)
}

// Kept returns the result of a task; the error is fs.ErrNotExist where there is none.
func (f Folder) Kept(hash string) ([]byte, error) { return f.get(fileOf(resultsDir, hash)) }

// Once returns the result of a task, which essence tells from all others of the program:
// what the folder has, or else what run gives, which it then has. From run nil is no
// result, and nothing is kept.
func (f Folder) Once(essence string, run func() ([]byte, error)) ([]byte, error) {
	hash := TaskHash(essence)
	if hash == "" {
		return nil, errors.New("the program can't be told from others: its own file can't be read")
	}
	result, err := f.Kept(hash)
	if !errors.Is(err, fs.ErrNotExist) {
		return result, err
	}
	if result, err = run(); err != nil || result == nil {
		return nil, err
	}
	if err := f.Keep(hash, result); err != nil {
		return nil, fmt.Errorf("%v: %w", f, err)
	}
	return result, nil
}
