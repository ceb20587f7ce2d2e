package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/internal/spelling"
)

// noCommand refuses a word that names none of c's commands.
func noCommand(c *cobra.Command, word string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, append([]string{sub.Name()}, sub.Aliases...)...)
		}
	}
	return usageError{fmt.Errorf("%s has no command %q: %s", c.CommandPath(), word, spelling.Mend(word, names))}
}

// knownCommand refuses, for sluice help, words that lead to no command.
func knownCommand(help *cobra.Command, words []string) error {
	found, rest, err := help.Root().Find(words)
	if err == nil && len(rest) > 0 {
		return noCommand(found, rest[0])
	}
	return err
}

// flagError says what is wrong with a flag in the terms of who typed it.
func flagError(c *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w: see %s --help", flagFault(c, err), c.CommandPath())}
}

func flagFault(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var lacking *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("there is no flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		typed := unknown.GetSpecifiedName()
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := spelling.Nearest(typed, names); near != "" {
			return fmt.Errorf("there is no flag --%s: is --%s meant?", typed, near)
		}
		return fmt.Errorf("there is no flag --%s", typed)
	case errors.As(err, &lacking):
		return fmt.Errorf("--%s needs a value", lacking.GetFlag().Name)
	case errors.As(err, &value):
		f := value.GetFlag()
		var fault *field.Error
		if errors.As(value, &fault) {
			return fmt.Errorf("%s %s: %s", fault.Key, value.GetValue(), fault.Want) // of -i, Key may be --interval
		}
		says := expected(f.Value.Type(), value.GetValue(), value)
		if strings.Contains(says, strconv.Quote(value.GetValue())) {
			return fmt.Errorf("--%s: %s", f.Name, says)
		}
		return fmt.Errorf("--%s %s: %s", f.Name, value.GetValue(), says)
	}
	return err
}

// expected returns what a flag of a type takes, in place of the given value.
func expected(kind, given string, err error) string {
	switch kind {
	case "uint8":
		return "give a whole number from 0 to 255"
	case "uint64":
		return "give a whole number from 0 to 18446744073709551615"
	case "int":
		return "give a whole number"
	case "bool":
		return "give true or false"
	case "duration":
		if number, err := strconv.ParseFloat(given, 64); err == nil {
			return fmt.Sprintf("unit missing, for example %gs", number)
		}
		return fmt.Sprintf("give a time with its unit, for example %v", 3*time.Second)
	}
	return errors.Unwrap(err).Error()
}
