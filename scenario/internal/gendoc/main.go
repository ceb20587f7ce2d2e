package main

import (
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/markdown"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
)

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	text, err := generate(".")
	if err == nil {
		err = os.WriteFile(*out, []byte(text), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

//go:embed intro.md
var intro string

const module = "github.com/sluice-rdma/sluice/"

// generate returns the page; dir is that of package scenario.
func generate(dir string) (string, error) {
	g := generator{root: filepath.Join(dir, ".."), comments: map[string]comments{}}
	g.b.WriteString(intro)
	for _, s := range scenario.Schema() {
		if err := g.section(&s); err != nil {
			return "", err
		}
	}
	g.b.WriteString("## Engines: systems[].config\n\nThe keys that `config` takes depend on the engine. Defaults are those of the\nengine's paper, or named in its page in [engines](engines/).\n\n")
	for _, e := range cc.Schemes() {
		if err := g.engine(e); err != nil {
			return "", err
		}
	}
	g.names()
	return g.b.String(), nil
}

type generator struct {
	b        strings.Builder
	root     string // of the module
	comments map[string]comments
}

// comments are those of a package, by "Type" and "Type.Field".
type comments map[string]string

func (g *generator) section(s *scenario.Section) error {
	docs, err := g.of(s.Type)
	if err != nil {
		return err
	}
	name := s.Type.Name()
	switch {
	case s.Path == "":
		g.b.WriteString("## The top\n\n")
	case s.Kind != "":
		fmt.Fprintf(&g.b, "### %s, kind `%s`\n\n", s.Path, s.Kind)
	case strings.Contains(strings.TrimSuffix(s.Path, "[]"), "."):
		fmt.Fprintf(&g.b, "### %s\n\n", s.Path)
	default:
		fmt.Fprintf(&g.b, "## %s\n\n", s.Path)
	}
	about := docs[name]
	if ofNIC(s) {
		if about, err = g.aboutNIC(s, name, about); err != nil {
			return err
		}
	}
	if s.Path != "" && about != "" {
		g.b.WriteString(about + "\n\n")
	}
	return g.table(s)
}

// ofNIC reports whether a section is of a NIC preset's parameters.
func ofNIC(s *scenario.Section) bool {
	return strings.HasPrefix(s.Type.PkgPath(), reflect.TypeFor[nicmodel.NIC]().PkgPath()) // it, or a package below it
}

// aboutNIC makes the comment of a type of package nicmodel one for readers of the page.
func (g *generator) aboutNIC(s *scenario.Section, name, about string) (string, error) {
	if s.Type == reflect.TypeFor[nicmodel.Config]() {
		with := reflect.TypeFor[scenario.With]()
		docs, err := g.of(with)
		return strings.Replace(docs[with.Name()], with.Name()+" is p", "P", 1), err
	}
	if rest, ok := strings.CutPrefix(about, name+" "); ok {
		about = "This " + rest
	}
	return about, nil
}

// textNIC does so with the comment of a field. Fields that are a plain word stay one.
func textNIC(field, text string, keys []scenario.Key) string {
	if rest, ok := strings.CutPrefix(text, field+" is "); ok {
		text = capital(rest)
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(k scenario.Key) bool { return !strings.Contains(k.Name, "_") })
	return byKey(text, keys)
}

func (g *generator) engine(e cc.Scheme) error {
	s := scenario.EngineSchema(e)
	fmt.Fprintf(&g.b, "### engine `%s`\n\n%s. Source: %s.\n\n", e.Name, capital(e.Summary), e.Source)
	if len(s.Keys) == 0 {
		g.b.WriteString("It takes no parameters.\n\n")
		return nil
	}
	return g.table(&s)
}

func (g *generator) table(s *scenario.Section) error {
	t := markdown.NewTable(&g.b, "key", "value", "default", "meaning")
	for _, k := range s.Keys {
		docs, err := g.of(k.In)
		if err != nil {
			return err
		}
		text := docs[k.In.Name()+"."+k.Field]
		if ofNIC(s) {
			text = textNIC(k.Field, text, s.Keys)
		}
		if s.Path == "config" { // written for readers of the Go package
			text = byKey(text, s.Keys)
		}
		if text == "" {
			return fmt.Errorf("%s.%s has no comment: say what the key %s does", s.Type, k.Field, k.Name)
		}
		def := "`" + k.Default + "`"
		switch {
		case k.Required:
			def = "required"
		case k.Default == "":
			def = ""
		}
		value := k.Value
		switch {
		case strings.HasPrefix(k.Takes, "a "):
			value = k.Takes
		case k.Takes != "":
			value += ", " + k.Takes
		}
		t.Row(markdown.Code(k.Name), value, def, text)
	}
	g.b.WriteString("\n")
	if text := example(s); text != "" {
		g.b.WriteString("```yaml\n" + text + "```\n\n")
	}
	return nil
}

// byKey puts the keys for the names that their fields have in Go.
func byKey(text string, keys []scenario.Key) string {
	for _, k := range keys {
		field := regexp.MustCompile(`\b` + k.Field + `\b`)
		text = field.ReplaceAllLiteralString(text, "`"+k.Name+"`")
	}
	return text
}

// names lists what there is to name.
func (g *generator) names() {
	g.b.WriteString("## Names\n\nNIC presets (`nic.preset`): " + quoted(nicmodel.Presets()) + ".\n\nHosts (`nic.host`): " + quoted(nicmodel.Hosts()) + ".\n\nSize distributions (`sizes`):\n\n")
	t := markdown.NewTable(&g.b, "name", "flows", "mean", "source")
	for _, d := range workload.Distributions() {
		t.Row(markdown.Code(d.Name), capital(d.Summary), fmt.Sprintf("%.1f KB", d.Mean()/1000), d.Source)
	}
	g.b.WriteString("\nBuilt-in scenarios, which `sluice run` and `extends` take by name: " + quoted(scenario.Builtins()) +
		". By these the simulator's own speed is measured: " + quoted(scenario.Speeds()) + ".\n")
}

func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// of returns the comments of the package that declares a type.
func (g *generator) of(t reflect.Type) (comments, error) {
	pkg := strings.TrimPrefix(t.PkgPath(), module)
	if c, ok := g.comments[pkg]; ok {
		return c, nil
	}
	dir := filepath.Join(g.root, filepath.FromSlash(pkg))
	fset := token.NewFileSet()
	c := comments{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !isSource(e) {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.add(file)
	}
	g.comments[pkg] = c
	return c, nil
}

func isSource(e fs.DirEntry) bool {
	return path.Ext(e.Name()) == ".go" && !strings.HasSuffix(e.Name(), "_test.go")
}

func (c comments) add(file *ast.File) {
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, spec := range d.Specs {
			t := spec.(*ast.TypeSpec)
			c[t.Name.Name] = oneLine(d.Doc.Text())
			if st, ok := t.Type.(*ast.StructType); ok {
				c.addFields(t.Name.Name, st)
			}
		}
	}
}

// addFields gives a field without a comment that of the field before it: the two
// are described together.
func (c comments) addFields(typ string, st *ast.StructType) {
	last := ""
	for _, f := range st.Fields.List {
		text := oneLine(f.Doc.Text())
		if text == "" {
			text = oneLine(f.Comment.Text())
		}
		if text == "" {
			text = last
		}
		last = text
		for _, name := range f.Names {
			c[typ+"."+name.Name] = text
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
