// Draws one board: `window.board` is what ask.py wrote. Panels are those of @grafana/ui; what only Grafana's own
// application has (heatmaps, the transformation timeSeriesTable, annotations) is a plain stand-in.
import {
  EventBusSrv, FieldType, applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, createTheme, dateTime, getFieldDisplayValues,
  Registry, standardTransformers, standardTransformersRegistry, transformDataFrame,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, PanelContextProvider, ThemeContext, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { createRoot } from 'react-dom/client';
import { Fragment } from 'react';
import 'uplot/dist/uPlot.min.css';

const CELL = 30, GAP = 8, COLUMNS = 24, WIDTH = 1560;
const { board } = window;
const theme = createTheme({ colors: { mode: new URLSearchParams(location.search).get('theme') || 'dark' } });
const timeRange = { from: dateTime(board.from), to: dateTime(board.to), raw: { from: 'now-6h', to: 'now' } };

standardTransformersRegistry.setInit(() =>
  [...new Map(Object.values(standardTransformers).map((one) => [one.id, { id: one.id, name: one.name, transformation: async () => one }])).values()]);

// The properties that the panel sets: the standard ones by their names, those of its kind under `custom.`.
function registry(panel) {
  const { overrides, defaults: { custom = {}, ...standard } } = panel.fieldConfig;
  const ids = new Set([
    ...overrides.flatMap((one) => one.properties.map((property) => property.id)),
    ...Object.keys(standard), ...Object.keys(custom).map((name) => `custom.${name}`),
  ]);
  return new Registry(() => [...ids].map((id) => ({
    id, name: id, path: id.replace(/^custom\./, ''), isCustom: id.startsWith('custom.'),
    process: (value) => value, shouldApply: () => true, defaultValue: undefined,
  })));
}

const named = (legend, labels) => {
  if (legend) { return legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? ''); }
  const { __name__: name = '', ...rest } = labels;
  return `${name}{${Object.entries(rest).map(([key, value]) => `${key}="${value}"`).join(', ')}}`;
};
const number = (text) => (text === 'NaN' ? null : Number(text));

function seriesFrame(target, one) {
  const displayNameFromDS = named(target.legend, one.metric);
  return createDataFrame({
    refId: target.ref,
    meta: { type: 'timeseries-multi' },
    fields: [
      { name: 'Time', type: FieldType.time, values: one.values.map(([at]) => at * 1000), config: { interval: board.step * 1000 } },
      { name: 'Value', type: FieldType.number, labels: one.metric, values: one.values.map(([, value]) => number(value)), config: { displayNameFromDS } },
    ],
  });
}

function tableFrame(target, targets) {
  const labels = [...new Set(target.result.flatMap((one) => Object.keys(one.metric)))].sort();
  const value = targets.length > 1 ? `Value #${target.ref}` : 'Value';
  return createDataFrame({
    refId: target.ref,
    fields: [
      { name: 'Time', type: FieldType.time, values: target.result.map((one) => one.value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: target.result.map((one) => one.metric[label] ?? '') })),
      { name: value, type: FieldType.number, values: target.result.map((one) => Number(one.value[1])) },
    ],
  });
}

// Grafana's application has this one: a row for each series, the series itself in a field.
function trendFrame(target) {
  const labels = [...new Set(target.result.flatMap((one) => Object.keys(one.metric)))].sort();
  const frames = target.result.map((one) => {
    const frame = seriesFrame(target, one);
    frame.fields[1].config = {};
    return { ...frame, value: frame.fields[1].values.at(-1) };
  });
  return createDataFrame({
    refId: target.ref,
    fields: [
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: target.result.map((one) => one.metric[label] ?? '') })),
      { name: `Trend #${target.ref}`, type: FieldType.frame, config: {}, values: frames },
    ],
  });
}

async function framesOf(panel, targets) {
  let frames = targets.flatMap((target) => {
    if (panel.type === 'table') { return [target.instant ? tableFrame(target, targets) : trendFrame(target)]; }
    if (target.instant) { return target.result.map((one) => seriesFrame(target, { metric: one.metric, values: [one.value] })); }
    return target.result.map((one) => seriesFrame(target, one));
  });
  const steps = (panel.transformations ?? []).filter((one) => one.id !== 'timeSeriesTable');
  if (steps.length) {
    frames = await new Promise((resolve) => transformDataFrame(steps, frames).subscribe(resolve));
  }
  const shown = applyFieldOverrides({
    data: frames, fieldConfig: panel.fieldConfig, theme, timeZone: 'utc',
    replaceVariables: (text) => text, fieldConfigRegistry: registry(panel),
  });
  cacheFieldDisplayNames(shown);
  return shown;
}

function Heat({ panel, targets, width, height }) {
  const buckets = [...targets[0].result].sort((a, b) => number2(a.metric.le) - number2(b.metric.le));
  const times = [...new Set(buckets.flatMap((one) => one.values.map(([at]) => at)))].sort();
  const at = buckets.map((one) => new Map(one.values.map(([time, value]) => [time, number(value) || 0])));
  const cells = buckets.flatMap((one, row) => times.map((time, column) => ({ row, column, value: (at[row].get(time) || 0) - (row ? at[row - 1].get(time) || 0 : 0) })));
  const most = Math.max(1e-9, ...cells.map((cell) => cell.value));
  const w = (width - 50) / times.length, h = (height - 4) / buckets.length;
  return (
    <svg width={width} height={height}>
      {buckets.map((one, row) => <text key={row} x={40} y={height - (row + 0.3) * h} fontSize={11} textAnchor="end" fill={theme.colors.text.secondary}>{one.metric.le}</text>)}
      {cells.filter((cell) => cell.value > 1e-9).map((cell) => (
        <rect key={`${cell.row} ${cell.column}`} x={48 + cell.column * w} y={height - (cell.row + 1) * h} width={w} height={h - 1} fill="#3274d9" opacity={Math.sqrt(cell.value / most)} />
      ))}
    </svg>
  );
}
const number2 = (le) => (le === '+Inf' ? Infinity : Number(le));

function Inside({ panel, frames, targets, width, height }) {
  const empty = frames.every((frame) => frame.length === 0);
  if (panel.type === 'heatmap') { return <Heat {...{ panel, targets, width, height }} />; }
  if (panel.type === 'stat') {
    const reduceOptions = panel.options.reduceOptions;
    const [shown] = getFieldDisplayValues({ fieldConfig: panel.fieldConfig, reduceOptions, replaceVariables: (text) => text, theme, data: frames, timeZone: 'utc' });
    return <BigValue value={shown.display} width={width} height={height} theme={theme} colorMode={panel.options.colorMode} graphMode={panel.options.graphMode} textMode="auto" justifyMode="auto" />;
  }
  if (empty) { return <div style={{ padding: 20, color: theme.colors.text.secondary, textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue}</div>; }
  if (panel.type === 'table') { return <TableNG data={frames[0]} width={width} height={height} cellHeight={panel.options.cellHeight} timeRange={timeRange} noValue={panel.fieldConfig.defaults.noValue} fieldConfig={panel.fieldConfig} />; }
  return <TimeSeries frames={frames} timeRange={timeRange} timeZone="utc" width={width} height={height} legend={panel.options.legend} theme={theme} options={panel.options} />;
}

function Drawn({ panel, frames, targets }) {
  const { x, y, w, h } = panel.gridPos;
  const unit = WIDTH / COLUMNS;
  const place = { position: 'absolute', left: x * unit, top: y * (CELL + GAP), width: w * unit - GAP, height: h * (CELL + GAP) - GAP };
  if (panel.type === 'row') { return <div style={{ ...place, paddingTop: 4, fontSize: 16 }}>▾ {panel.title}</div>; }
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} width={place.width} height={place.height}>
        {(width, height) => <Inside {...{ panel, frames, targets, width, height }} />}
      </PanelChrome>
    </div>
  );
}

const context = { eventBus: new EventBusSrv(), eventsScope: 'panels', onSeriesColorChange() {} };
const all = await Promise.all(board.panels.map(async ({ panel, targets }) => ({ panel, targets, frames: panel.type === 'row' ? [] : await framesOf(panel, targets) })));
const bottom = Math.max(...all.map(({ panel }) => panel.gridPos.y + panel.gridPos.h)) * (CELL + GAP);
document.body.style.cssText = `margin: 0; padding: 8px; width: ${WIDTH}px; height: ${bottom}px; background: ${theme.colors.background.canvas}`;
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <PanelContextProvider value={context}>
      <div style={{ position: 'relative', height: bottom }}>
        {all.map((one, number) => <Fragment key={number}><Drawn {...one} /></Fragment>)}
      </div>
    </PanelContextProvider>
  </ThemeContext.Provider>);
