# shellcheck shell=bash
# Recipes for Argo Workflows: controller and executor, and the command line with the web UI that it embeds.
# Needs lib/toolchain.sh. A module archive holds neither symlinks nor the built UI, hence the copy of the sources.

TOOLCHAIN_ARGO_RELEASES=https://github.com/argoproj/argo-workflows/releases/download

# The folder of the module's sources, which cannot be written to.
toolchain_argo_source() {
  local folder
  folder=$(toolchain_folder argo)
  (cd "$folder" && go mod download "$TOOLCHAIN_ARGO" && go list -m -f '{{.Dir}}' "$TOOLCHAIN_ARGO")
}

# toolchain_argo_copy STAGING: Argo's Go sources in STAGING/source with what the archive lacks put in, and in STAGING/module a module
# that builds them and pins all others.
toolchain_argo_copy() {
  local module=$1/module copy=$1/source source
  source=$(toolchain_argo_source) || return 1
  mkdir -p "$module" "$copy"
  tar -C "$source" --exclude=./ui --exclude=./docs --exclude=./test --exclude=./examples -c . | tar -C "$copy" -x || return 1
  chmod -R u+w "$copy"
  mkdir -p "$copy/ui/dist/app"
  cp "$source/ui/"*.go "$copy/ui/" &&
    cp "$copy/workflow/executor/osspecific/signal_darwin.go" "$copy/workflow/executor/osspecific/signal_linux.go" &&
    cp "$(toolchain_folder argo)"/go.{mod,sum} "$module/" || return 1
  echo '<!doctype html><title>Argo API</title><p>This argo-server was built without the web UI.' >"$copy/ui/dist/app/index.html"
  (cd "$module" && go mod edit -replace "$TOOLCHAIN_ARGO=$copy")
}

# toolchain_argo_compile STAGING OUT COMMAND…
toolchain_argo_compile() {
  local module=$1/module out=$2 version name
  shift 2
  version=$(toolchain_version argo)
  local packages=()
  for name in "$@"; do packages+=("$TOOLCHAIN_ARGO/cmd/$name"); done
  toolchain_go_build "$module" "$out" \
    "-X $TOOLCHAIN_ARGO.version=$version -X $TOOLCHAIN_ARGO.gitTag=$version -X $TOOLCHAIN_ARGO.gitCommit=$version -X $TOOLCHAIN_ARGO.gitTreeState=clean" \
    "${packages[@]}"
}

toolchain_build_argo() {
  local out=$1 staging=$2
  toolchain_argo_copy "$staging" || return 1
  mkdir -p "$out/manifests/quick-start"
  cp -r "$staging/source/manifests/"{base,namespace-install} "$out/manifests/" &&
    cp -r "$staging/source/manifests/quick-start/base" "$out/manifests/quick-start/" &&
    toolchain_argo_compile "$staging" "$out" workflow-controller argoexec
}

# The argo command without the UI.
toolchain_build_cli() { toolchain_argo_copy "$2" && toolchain_argo_compile "$2" "$1" argo; }

# The argo command with the UI: the official release where it can be downloaded, else built here.
toolchain_build_ui() {
  local out=$1 staging=$2
  if toolchain_ui_download "$out"; then
    echo "the UI is from the official release"
    return 0
  fi
  echo "the official release cannot be downloaded; building the UI"
  toolchain_ui_possible &&
    toolchain_ui_bundle "$staging/ui" &&
    toolchain_argo_copy "$staging" || return 1
  local app=$staging/source/ui/dist/app
  rm -rf "$app"
  cp -r "$staging/ui/source/ui/dist/app" "$app" || return 1
  toolchain_argo_compile "$staging" "$out" argo
}

toolchain_ui_possible() {
  local major
  major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
  if ((${major:-0} < 20)) || ! command -v npm >/dev/null; then
    echo "building the Argo UI needs Node.js 20 or newer and npm" >&2
    return 1
  fi
}

toolchain_ui_download() {
  local out=$1 version file address
  version=$(toolchain_version ui)
  file=argo-linux-$(go env GOARCH).gz
  address=$TOOLCHAIN_ARGO_RELEASES/$version
  curl -fsSL --connect-timeout 5 --max-time 10 -o "$out/checksums" "$address/argo-workflows-cli-checksums.txt" 2>/dev/null &&
    curl -fsSL --connect-timeout 5 --speed-limit 50000 --speed-time 10 -o "$out/$file" "$address/$file" &&
    (cd "$out" && grep -F " $file" checksums | sha256sum --check --status) &&
    gunzip -c "$out/$file" >"$out/argo" && chmod 755 "$out/argo"
  local rc=$?
  rm -f "$out/checksums" "$out/$file"
  ((rc == 0)) || rm -f "$out/argo"
  return "$rc"
}

# toolchain_ui_bundle STAGING: builds STAGING/source/ui/dist/app from the module's sources and npm packages.
toolchain_ui_bundle() {
  local staging=$1 source registry
  source=$(toolchain_argo_source) || return 1
  mkdir -p "$staging/source" "$staging/yarn"
  cp -r "$source/ui" "$source/api" "$staging/source/" && chmod -R u+w "$staging/source" || return 1
  registry=$(npm config get registry 2>/dev/null)
  registry=${registry%/}
  npm install --silent --no-audit --no-fund --no-save --prefix "$staging/yarn" yarn@1.22.22 || return 1
  toolchain_ui_dependencies "$staging/source/ui" "$registry"
  (
    cd "$staging/source/ui" || exit 1
    "$staging/yarn/node_modules/.bin/yarn" --no-default-rc --registry "$registry" install \
      --ignore-scripts --ignore-engines --non-interactive --no-progress --cache-folder "$staging/yarn/cache" || exit 1
    # argo-ui 1.0.0 imports uuid/v1 without declaring it.
    mkdir -p node_modules/argo-ui/node_modules/uuid
    npm pack --silent --pack-destination "$staging/yarn" uuid@3.4.0 >/dev/null || exit 1
    tar -xzf "$staging/yarn/uuid-3.4.0.tgz" --strip-components=1 -C node_modules/argo-ui/node_modules/uuid || exit 1
    toolchain_ui_webpack >webpack.argosy.js
    NODE_ENV=production NODE_OPTIONS=--max-old-space-size=6000 node_modules/.bin/webpack --mode production --config webpack.argosy.js || exit 1
    test -s dist/app/index.html
  )
}

# Upstream's settings without source maps, which nobody looks at here, and with the faster of two ways to make it small.
toolchain_ui_webpack() {
  cat <<'END'
const {EsbuildPlugin} = require('esbuild-loader');
module.exports = {...require('./webpack.config.js'), devtool: false, optimization: {minimizer: [new EsbuildPlugin()]}};
END
}

# The one git dependency is replaced by its npm release, and the lock file's addresses by the configured registry. Packages for
# tests and checks of the UI are left out.
toolchain_ui_dependencies() {
  local ui=$1 registry=$2
  jq --arg bundle '^(@fortawesome/.*|webpack|webpack-cli|.*-loader|sass|.*-webpack-plugin)$' \
    '.dependencies["argo-ui"] = "1.0.0" | .devDependencies |= with_entries(select(.key | test($bundle)))' \
    "$ui/package.json" >"$ui/package.json.new"
  mv "$ui/package.json.new" "$ui/package.json"
  awk '/^"argo-ui@/ {skip = 1; next} skip && /^[^ ]/ {skip = 0} !skip' "$ui/yarn.lock" |
    sed -E "s#^(  resolved \")https://[^/]+/#\\1$registry/#" >"$ui/yarn.lock.new"
  mv "$ui/yarn.lock.new" "$ui/yarn.lock"
}
