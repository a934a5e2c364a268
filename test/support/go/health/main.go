// Command health reports the health of an object as other tools see it: kstatus by its own library, Argo CD
// by a script on its Lua engine, Flux by CEL expressions. It reads objects as lines of JSON, and prints a
// line with the three results for each. Usage:
// health <script> <expressions>
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: health <script> <expressions>"))
	}
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	expressions, err := readExpressions(os.Args[2])
	if err != nil {
		fail(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			fail(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			fail(err)
		}
		health, err := healthOf(string(script), object.Object)
		if err != nil {
			fail(err)
		}
		fmt.Println(result.Status, health, expressions.of(object.Object))
	}
}

// healthOf runs a script as Argo CD does: the object is the global obj, and the script returns a table with the status.
func healthOf(script string, object map[string]interface{}) (string, error) {
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", valueOf(state, object))
	if err := state.DoString(script); err != nil {
		return "", err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", fmt.Errorf("the script returned no table")
	}
	return table.RawGetString("status").String(), nil
}

// expressions of a Flux Kustomization for one kind.
type expressions struct{ failed, current cel.Program }

func readExpressions(path string) (*expressions, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		HealthCheckExprs []struct{ Failed, Current string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	environment, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("status", cel.DynType))
	if err != nil {
		return nil, err
	}
	compiled := func(source string) (cel.Program, error) {
		tree, issues := environment.Compile(source)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		return environment.Program(tree)
	}
	failed, err := compiled(file.HealthCheckExprs[0].Failed)
	if err != nil {
		return nil, err
	}
	current, err := compiled(file.HealthCheckExprs[0].Current)
	return &expressions{failed, current}, err
}

// of says what Flux makes of an object: failed comes first, and what is neither failed nor current is in progress.
func (e *expressions) of(object map[string]interface{}) string {
	if isTrue(e.failed, object) {
		return "Failed"
	}
	if isTrue(e.current, object) {
		return "Current"
	}
	return "InProgress"
}

func isTrue(program cel.Program, object map[string]interface{}) bool {
	value, _, err := program.Eval(object)
	return err == nil && value.Value() == true
}

func valueOf(state *lua.LState, value interface{}) lua.LValue {
	switch value := value.(type) {
	case map[string]interface{}:
		table := state.NewTable()
		for key, member := range value {
			table.RawSetString(key, valueOf(state, member))
		}
		return table
	case []interface{}:
		table := state.NewTable()
		for _, item := range value {
			table.Append(valueOf(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
