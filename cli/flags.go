package cli

import (
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rdma/sluice/internal/field"
)

// addFlags gives a command the flags of *config's fields, by their tags (field.Flag), and the
// fields their defaults.
func addFlags(cmd *cobra.Command, config any) {
	field.Fill(config)
	flags, v := cmd.Flags(), reflect.ValueOf(config).Elem()
	for _, f := range field.Flags(v.Type()) {
		usage := markValue.Replace(f.Help)
		if f.Words != nil {
			usage += ": " + f.Takes
		}
		otherwise := f.Otherwise()
		if otherwise != "" {
			usage += " (default " + otherwise + ")"
		}
		switch to := f.Of(v).Addr().Interface().(type) {
		case *[]string:
			flags.StringArrayVarP(to, f.Name, f.Letter, nil, usage)
		case *bool:
			if f.Words == nil {
				flags.BoolVarP(to, f.Name, f.Letter, false, usage)
				break
			}
			flags.VarP(&flagValue{&f, v}, f.Name, f.Letter, usage)
		default:
			flags.VarP(&flagValue{&f, v}, f.Name, f.Letter, usage)
		}
		if otherwise != "" {
			flags.Lookup(f.Name).DefValue = ""
		}
		if f.Words != nil {
			if err := cmd.RegisterFlagCompletionFunc(f.Name, fixed(f.Words...)); err != nil {
				panic(err) // the flag is there, and has none yet
			}
		}
	}
}

// markValue marks the word of a flag's help that stands for its value, as help and pages have it.
var markValue = strings.NewReplacer("<", "`", ">", "`")

// copyGiven sets those fields of *to to *from's whose flags were given.
func copyGiven[T any](cmd *cobra.Command, to, from *T) {
	for _, f := range field.Flags(reflect.TypeFor[T]()) {
		if cmd.Flags().Changed(f.Name) {
			f.Of(reflect.ValueOf(to).Elem()).Set(f.Of(reflect.ValueOf(from).Elem()))
		}
	}
}

// flagValue is a flag's field in a configuration.
type flagValue struct {
	flag   *field.Flag
	config reflect.Value
}

var _ pflag.Value = (*flagValue)(nil)

// String implements pflag.Value.
func (v *flagValue) String() string { return v.flag.Text(v.config) }

// Set implements pflag.Value.
func (v *flagValue) Set(text string) error { return v.flag.Set(v.config, text) }

// Type implements pflag.Value.
func (v *flagValue) Type() string { return v.flag.Kind() }
